"""The tests of an area inside one pytest: collected once, then run in a forked process for each mutant."""

import contextlib
import os
import resource
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import pytest

from tests.mutation.areas import Area
from tests.mutation.mutants import Candidate, plant_probes

OPTIONS = ("-n", "0", "-q", "-m", "not long", "-p", "no:cacheprovider", "--timeout=600")
CPU_SECONDS = 15  # of tests that are run against one mutant: what only longer ones would find counts as not found
CPU_FACTOR = 4  # by which a mutant that loops for ever exceeds that
TEST_SECONDS = 180  # after which a test against a mutant is given up, wherever it waits
RENEWED_AFTER = 8  # mutants: so much of what they leave in a process that trials share is borne
MEMORY_BYTES = 6 << 30  # which a mutant may fill
FORK = get_context("fork")

T = TypeVar("T")


class Trials:
    """A pytest plugin that records which tests reach which mutants, and runs those against a mutant.

    Other processes that a test starts run without the mutant, but for those of the area's `by_processes`: what only they
    would find counts as not found.
    """

    def __init__(self, area: Area, measure: Callable[["Trials"], None]) -> None:
        self._measure = measure
        self._needs_spark = area.needs_spark
        self._by_processes = area.by_processes
        self._copies: Path | None = None  # of the code, for processes that tests start
        self._renew: Callable[[bool], None] = lambda only_if_dead: None  # what trials share
        self._tried = 0
        self._items: dict[str, pytest.Item] = {}
        self._has_failed = False
        self._context = ""  # the test that runs; its file while a fixture is set up, which other tests may use as well
        self._contexts: defaultdict[str, set[str]] = defaultdict(set)  # that reach each mutant
        self._seconds: dict[str, float] = {}  # of the processor, for each test
        if pytest.main([*OPTIONS, *(f"--deselect={path}" for path in area.ignored), *area.tests], plugins=[self]):
            raise SystemExit("the tests cannot be collected")

    def record(self, candidates: Sequence[Candidate]) -> None:
        """Run all tests once, to know what each costs, and which of the mutants it reaches."""
        *_, last = in_fork(partial(self._record, candidates))
        if not isinstance(last, tuple):
            raise SystemExit(f"{last} fails without any mutant")
        self._contexts, self._seconds = last

    def is_found(self, candidate: Candidate) -> bool:
        """Plant a mutant, and run the tests that reach it, the quickest first, until one fails or does not end.

        That one must pass without the mutant, and fail with it once more: a test that fails now and then, or because
        the machine is busy, finds nothing.
        """
        contexts = self._contexts[candidate.name] | {*self._by_processes}
        tests = [test for test in self._seconds if test in contexts or file_of(test) in contexts]
        tests.sort(key=self._seconds.__getitem__)
        costs = accumulate(self._seconds[test] for test in tests)
        tests = [test for test, cost in zip(tests, costs, strict=True) if cost <= CPU_SECONDS]

        def find_failing(tests: list[str], mutant: Candidate | None = None) -> str | None:
            began = time.monotonic()
            *_, last = in_fork(partial(self._run, tests, mutant), CPU_FACTOR * CPU_SECONDS, TEST_SECONDS)
            self._renew(time.monotonic() - began < TEST_SECONDS)
            return last

        self._tried += 1
        self._renew(self._tried % RENEWED_AFTER != 0)
        while tests and (failed := find_failing(tests, candidate)):
            if find_failing([failed]) is None and find_failing([failed], candidate):
                return True
            tests = tests[tests.index(failed) + 1 :]
        return False

    def _record(self, candidates: Iterable[Candidate]) -> Iterator[object]:
        plant_probes(candidates, lambda name: self._contexts[name].add(self._context))
        yield from self._run(self._items)
        if not self._has_failed:
            yield self._contexts, self._seconds

    def _run(self, tests: Iterable[str], candidate: Candidate | None = None) -> Iterator[str | None]:
        """Run tests until one fails. Yield each before it runs, and None when all have passed."""
        if candidate is not None:
            candidate.plant(self._copies)
        for test, following in pairwise([*tests, None]):
            assert test is not None, "only the last one is followed by none"
            yield test
            item, before = self._items[test], measure_cpu()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=self._items.get(following or ""))
            self._seconds[test] = measure_cpu() - before
            if self._has_failed:
                item.session._setupstate.teardown_exact(None)
                return
        yield None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure instead of running the tests as they come."""
        capture = session.config.pluginmanager.get_plugin("capturemanager")
        assert capture is not None, "pytest captures what tests print"
        capture.suspend_global_capture()
        session.config.pluginmanager.unregister(name="terminalreporter")
        self._items = {item.nodeid: item for item in session.items}
        if self._needs_spark:
            from tests.mutation.spark import share_session

            self._renew = share_session(session.config._tmp_path_factory.mktemp("spark"))
        if self._by_processes:
            self._copies = session.config._tmp_path_factory.mktemp("copies")
        self._measure(self)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._context = file_of(item.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self._context = item.nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._has_failed |= report.failed


def measure_cpu() -> float:
    """Return what this process has taken of the processor, with those that it has started and that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def file_of(test: str) -> str:
    return test.partition("::")[0]


def in_fork(run: Callable[[], Iterable[T]], cpu_seconds: float = 0, seconds: float | None = None) -> Iterator[T]:
    """Run something in a process of its own, and yield what it yields, until it ends or dies.

    It is ended, and prints where each of its threads stands, when nothing comes for so many seconds. What it has
    started ends with it. A process that is killed from outside says nothing: the machine had no memory left.
    """

    def work(sender: Connection) -> None:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        for one in run():
            sender.send(one)
        os._exit(0)  # whatever threads it has left

    receiver, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=work, args=[sender])
    process.start()
    sender.close()
    with contextlib.suppress(EOFError):
        while receiver.poll(seconds):
            yield receiver.recv()
        os.kill(process.pid, signal.SIGABRT)
    process.join()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.exitcode == -signal.SIGKILL:
        raise SystemExit("a mutant was killed from outside")
