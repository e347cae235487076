"""The clock of `muster pipeline bench`: processor time of other processes, also of those that have ended."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from pipeline.bench import Figure, ProcessTree, Stopwatch

BUSY = "import sys, time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\nsys.stdin.read()"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_time_of_a_process_counts_also_when_it_has_ended() -> None:
    clock = ProcessTree()
    started = clock.seconds()
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        spent = clock.seconds() - started
        child.kill()
    assert spent >= 0.4
    assert clock.seconds() - started >= spent


def test_of_several_rounds_the_fastest_counts() -> None:
    lines: list[str] = []
    watch = Stopwatch(lines.append)
    assert watch.measure("work", lambda: None, 3, clock_of(0, 5, 5, 7, 7, 10)) == 2
    assert watch.rounds == {"work": [5, 2, 3]}
    assert lines == ["work: 2.00 s of the processor"]


def clock_of(*moments: float) -> Callable[[], float]:
    left = list(moments)
    return lambda: left.pop(0)


def test_a_goal_is_at_least_or_at_most() -> None:
    assert Figure("a", "b", 3.0, 2.0).met
    assert not Figure("a", "b", 3.0, 2.0, at_least=False).met
