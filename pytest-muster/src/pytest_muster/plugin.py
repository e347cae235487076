"""The pytest plugin: the fixtures `muster` and `muster_server`, and the timeline of groups in the report of a failure.

A run has a server of its own, and so has each worker of pytest-xdist. Where `MUSTER_ADMIN` or `--muster-admin` names a
running server, all workers share that one, each with a prefix for its groups and topics.
"""

import os
from collections.abc import Generator, Iterator
from typing import Any, Final

import pytest

from pytest_muster.admin import MusterError
from pytest_muster.muster import Muster
from pytest_muster.server import Server

TIMELINES_MAX: Final = 20
LINES_MAX: Final = 100  # of one timeline: the last ones


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("muster")
    group.addoption("--muster-admin", metavar="URL", help="the admin port of a running server (MUSTER_ADMIN)")
    group.addoption("--muster-bootstrap", metavar="HOST:PORT", help="its port for Kafka clients (MUSTER_BOOTSTRAP)")
    parser.addini("muster_options", "options of `muster serve` for the server that is started", type="args")
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
        yield Muster(bootstrap, admin, f"{worker}-" if worker else "")
        return
    server = Server(
        tmp_path_factory.mktemp("muster"), pytestconfig.getini("muster_options"), pytestconfig.getini("muster_command")
    )
    server.start()
    try:
        yield Muster(server.bootstrap, server.admin)
    finally:
        server.stop()


@pytest.fixture
def muster(muster_server: Muster) -> Muster:
    """Return a server with no topics but those of `muster_options`, no groups and no faults, whose clock runs."""
    muster_server.reset()
    return muster_server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failed test what happened to its groups, and why."""
    report = yield
    fixtures = getattr(item, "funcargs", {})
    server = fixtures.get("muster", fixtures.get("muster_server"))
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
