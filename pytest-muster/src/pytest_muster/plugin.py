"""The pytest plugin: the fixtures `muster`, `muster_module` and `muster_server`, and timelines in reports of failures.

A run has a server of its own, and so has each worker of pytest-xdist. Where `MUSTER_ADMIN` or `--muster-admin` names a
running server, all workers share that one, each with a prefix for its groups and topics. Names are those of one test,
module or session, unless `muster_unique_names` is off.
"""

import itertools
import os
from collections.abc import Generator, Iterator
from typing import Any, Final

import pytest

from pytest_muster.admin import MusterError
from pytest_muster.muster import Muster
from pytest_muster.server import Server

TIMELINES_MAX: Final = 20
LINES_MAX: Final = 100  # of one timeline: the last ones
NUMBERS: Final = itertools.count(1)  # of tests and modules
LENT: Final = pytest.StashKey[Muster]()  # the server as the module has it whose tests run, if one of them asked for it


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("muster")
    group.addoption("--muster-admin", metavar="URL", help="the admin port of a running server (MUSTER_ADMIN)")
    group.addoption("--muster-bootstrap", metavar="HOST:PORT", help="its port for Kafka clients (MUSTER_BOOTSTRAP)")
    parser.addini("muster_options", "options of `muster serve` for the server that is started", type="args")
    parser.addini(
        "muster_unique_names", "give each test names of groups and topics of its own", type="bool", default=True
    )
    parser.addini("muster_command", "the command that starts it, if it is not `muster`", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse an address that would not be used: the tests would run on a server of their own."""
    if config.getoption("--muster-bootstrap") and not _admin(config):
        raise pytest.UsageError("--muster-bootstrap needs --muster-admin or MUSTER_ADMIN, which name the server")


def _admin(config: pytest.Config) -> str:
    """Return the address of the running server to use, "" for none."""
    return config.getoption("--muster-admin") or os.environ.get("MUSTER_ADMIN", "")


@pytest.fixture(scope="session")
def muster_server(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """Yield the server of this run: started for it, or the one that is named."""
    if admin := _admin(pytestconfig):
        bootstrap = pytestconfig.getoption("--muster-bootstrap") or os.environ.get("MUSTER_BOOTSTRAP", "")
        worker = os.environ.get("PYTEST_XDIST_WORKER", "")
        yield _begin(
            pytestconfig, Muster(bootstrap, admin, f"{worker}-" if worker else "", _scope(pytestconfig, "session", 0))
        )
        return
    server = Server(
        tmp_path_factory.mktemp("muster"), pytestconfig.getini("muster_options"), pytestconfig.getini("muster_command")
    )
    server.start()
    try:
        yield _begin(pytestconfig, Muster(server.bootstrap, server.admin, "", _scope(pytestconfig, "session", 0)))
    finally:
        server.stop()


@pytest.fixture(scope="module")
def muster_module(muster_server: Muster, pytestconfig: pytest.Config) -> Iterator[Muster]:
    """Yield the server for all tests of a module: what is named through it stays until the module ends."""
    for lent in _lend(muster_server, pytestconfig, "module"):
        pytestconfig.stash[LENT] = lent
        yield lent
        del pytestconfig.stash[LENT]


@pytest.fixture
def muster(request: pytest.FixtureRequest, muster_server: Muster, pytestconfig: pytest.Config) -> Iterator[Muster]:
    """Yield a server with no topics but those of `muster_options`, no groups and no faults, whose clock runs.

    What fixtures of the module or the session have named through theirs is there as well, also in a test that does not
    use them: a later one of the module may.
    """
    if "muster_module" in request.fixturenames:
        request.getfixturevalue("muster_module")  # before this one
    yield from _lend(pytestconfig.stash.get(LENT, muster_server), pytestconfig, "test")


def _lend(outer: Muster, config: pytest.Config, kind: str) -> Iterator[Muster]:
    """Yield the server for a scope, reset before it, and again after it: what clients say of that is in its report."""
    inner = outer.narrow(_scope(config, kind, next(NUMBERS)))
    inner.reset()
    yield inner
    inner.reset()


def _scope(config: pytest.Config, kind: str, number: int) -> str:
    """Return what the names of a scope begin with, "" if they are to be as they are given.

    The number of a session, 0, tells its names from those that begin with this word by themselves.
    """
    return f"{kind}{number}-" if config.getini("muster_unique_names") else ""


def _begin(config: pytest.Config, server: Muster) -> Muster:
    """Return the server of a session, without what another one has left, which knows the topics of its own options."""
    if _admin(config):
        server.remove_leftovers()
    if config.getini("muster_options") or _admin(config):
        server.note_given_topics()
    return server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failed test what happened to its groups, and why."""
    report = yield
    fixtures = getattr(item, "funcargs", {})
    found = (fixtures.get(name) for name in ("muster", "muster_module", "muster_server"))
    server = next(filter(None, found), None)
    if report.failed and isinstance(server, Muster):
        report.sections.extend(_timelines(server))
    return report


def _timelines(server: Muster) -> Iterator[tuple[str, str]]:
    try:
        found = server.timelines()
    except MusterError as error:
        yield "muster", f"there is no timeline: {error}"
        return
    for group_id, text in list(found.items())[:TIMELINES_MAX]:
        lines = text.splitlines(keepends=True)
        left_out = f"({len(lines) - LINES_MAX} earlier events are left out)\n" if len(lines) > LINES_MAX else ""
        yield f"muster: timeline of group {group_id}", left_out + "".join(lines[-LINES_MAX:])
    if len(found) > TIMELINES_MAX:
        yield "muster", f"timelines of {len(found) - TIMELINES_MAX} more groups are left out"
