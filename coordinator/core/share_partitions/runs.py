"""Find, cut, change and join the runs of a share partition. No function looks at single records."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.share_partitions.values import TERMINAL, Run


class Segment(Struct, frozen=True, gc=False):
    """A range of offsets, and what is said of its records."""

    first_offset: int
    last_offset: int
    type: int


def find_run(runs: Sequence[Run], offset: int) -> int:
    """Return the index of the run that holds the offset, or of the first one behind it."""
    return bisect_left(runs, offset, key=_last_offset)


def find_end_of_batch(runs: Sequence[Run], at: int) -> int:
    """Return the index of the first run behind the batch that a run is a part of."""
    end = at + 1
    while end < len(runs) and runs[end].batch_first == runs[at].batch_first:
        end += 1
    return end


def _last_offset(run: Run) -> int:
    return run.last_offset


def part(run: Run, first_offset: int, last_offset: int) -> Run:
    """Return a part of a run; the run itself if that is all of it."""
    if first_offset == run.first_offset and last_offset == run.last_offset:
        return run
    return replace(run, first_offset=first_offset, last_offset=last_offset)


def overlay(runs: Sequence[Run], changed: Iterable[Run]) -> tuple[Run, ...]:
    """Return the runs with others in place of their records. Each is in place of one run or a part of it, and they are
    in order. Neighbours of one batch that are in the same state then become one run."""
    result: list[Run] = []
    at, rest = 0, None  # `rest`: what is left of runs[at - 1]
    for run in changed:
        if rest is None or rest.last_offset < run.first_offset:
            if rest is not None:
                _add(result, rest)
            begin = _find_from(runs, run.first_offset, at)
            if begin > at:
                _add(result, runs[at])
                result.extend(runs[at + 1 : begin])
            rest, at = runs[begin], begin + 1
        if rest.first_offset < run.first_offset:
            _add(result, part(rest, rest.first_offset, run.first_offset - 1))
        _add(result, run)
        rest = part(rest, run.last_offset + 1, rest.last_offset) if run.last_offset < rest.last_offset else None
    if rest is not None:
        _add(result, rest)
    if at < len(runs):
        _add(result, runs[at])
        result.extend(runs[at + 1 :])
    return tuple(result)


def _find_from(runs: Sequence[Run], offset: int, at: int) -> int:
    """Return the index of the run that holds the offset, which is not below `at` and nearly always just that."""
    return at if runs[at].last_offset >= offset else bisect_left(runs, offset, at, key=_last_offset)


def _add(result: list[Run], run: Run) -> None:
    if result and _is_continued(result[-1], run):
        result[-1] = replace(result[-1], last_offset=run.last_offset)
    else:
        result.append(run)


def _is_continued(run: Run, following: Run) -> bool:
    return (
        run.state == following.state
        and run.delivery_count == following.delivery_count
        and run.member_id == following.member_id
        and run.locked_until_ms == following.locked_until_ms
        and run.session == following.session
        and run.batch_first == following.batch_first
    )


def drop_below(runs: Sequence[Run], offset: int) -> tuple[Run, ...]:
    """Return the runs without the records below an offset."""
    at = find_run(runs, offset)
    if at == len(runs):
        return ()
    return (part(runs[at], max(offset, runs[at].first_offset), runs[at].last_offset), *runs[at + 1 :])


def select(runs: Iterable[Run], is_meant: Callable[[Run], bool]) -> list[Run]:
    """Return those runs for which the predicate holds."""
    return [run for run in runs if is_meant(run)]


def count_complete(runs: Iterable[Run]) -> int:
    """Return how many records of the runs are acknowledged or archived."""
    return sum(run.size for run in runs if run.state in TERMINAL)
