"""The target assignment: what an assignor is asked, whichever kind the group is of, and whether its answer will do."""

from collections.abc import Mapping

from coordinator.core.assignors import SteppedAssignor
from coordinator.core.assignors.spec import Assignment, Assignor, AssignorError, GroupSpec
from coordinator.core.decision import Steps


def existing_partitions(previous: Assignment, counts: Mapping[bytes, int]) -> Assignment:
    """Return a target without partitions that are no more: without --fsync a power cut may shrink a topic."""
    if all(partitions[-1] < counts.get(topic_id, 2**31) for topic_id, partitions in previous.items()):
        return previous
    kept = {t: tuple([p for p in ps if p < counts.get(t, 2**31)]) for t, ps in previous.items()}
    return {topic_id: partitions for topic_id, partitions in kept.items() if partitions}


def call_assignor(assignor: Assignor, spec: GroupSpec) -> Steps[Mapping[str, Assignment]]:
    """Call the assignor, in steps if it has any. One of another package may fail in any way, and its assignment is
    validated."""
    if isinstance(assignor, SteppedAssignor):
        return (yield from assignor.in_steps(spec))
    try:
        return check_assignment(spec, assignor(spec))
    except AssignorError:
        raise
    except Exception as error:
        raise AssignorError(f"the assignor failed: {error!r}") from error


def check_assignment(spec: GroupSpec, answer: Mapping[str, Mapping[bytes, tuple[int, ...]]]) -> dict[str, Assignment]:
    """Return the answer in its canonical form. Raises AssignorError where no group could follow it."""
    taken: set[tuple[bytes, int]] = set()
    checked: dict[str, Assignment] = {}
    for member_id, assignment in answer.items():
        if member_id not in spec.members:
            raise AssignorError(f"{member_id} is no member")
        for topic_id, partitions in assignment.items():
            for partition in partitions:
                if not 0 <= partition < spec.partition_count(topic_id) or (topic_id, partition) in taken:
                    raise AssignorError(f"{topic_id.hex()}-{partition} does not exist or is given out twice")
                taken.add((topic_id, partition))
        checked[member_id] = {topic_id: tuple(sorted(parts)) for topic_id, parts in assignment.items() if parts}
    return checked
