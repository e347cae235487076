"""How a member of a classic group left: whether it said so, or was removed.

Both look the same in a log: a generation without the member. A member is removed when its session ends, or when a join
phase has waited for it for the rebalance timeout in vain. What the log has of its life are its commits, each of which
renews the session. So a member that is gone within a session of its last one said so, if no join phase can have waited
for it so long. That is certain

- if the generation before is younger than the rebalance timeout;
- if all that stayed have committed since half of that time: they would have rejoined in a join phase that went on then;
- if it was the only member, and nobody has come;
- if it was a static member that has committed since the rebalance timeout: a join phase ends without those, but removes
  them only if they do not fetch their assignment within that time again.

Members of a cooperative group commit while they wait, so theirs is no such sign.

The other way round, silence proves nothing, however long it is: a member that pauses, or that has nothing to read, may
say goodbye at any time. So a timeout is never certain: `leave_or_timeout`.

All of that is counted by the broker's clock. If that went back since the members joined, or the group is at another
broker whose clock is behind, nothing is certain that follows from how much time has passed.

A static member that is back in a new generation took its own place, unless its session may have ended before: then it
may have been removed, and have joined like a stranger.
"""

from collections.abc import Iterable, Sequence

import msgspec

from pipeline.history.records import Activity, ClassicMember

LEAVE, UNKNOWN = "leave", "leave_or_timeout"
SHARE_OF_PATIENCE = 0.5  # in which all that stayed must have committed
SLEW_MS = 1_000  # how much earlier a time may be than the one before it: far less than a session


def classify_departure(
    member: ClassicMember, alive_ts: int, at_ts: int, committed: Activity | None, *, may_have_missed_rebalance: bool
) -> str:
    """Say how a member left that is gone at `at_ts`, when the join phase was over: leave, or leave_or_timeout.

    `alive_ts` is when the member last joined, `committed` what it committed since the last step (None: nothing).
    """
    if may_have_expired(member, alive_ts, at_ts, committed):
        return UNKNOWN
    last_ts = (committed.last_plain_ts if committed else None) or 0
    is_kept = member.group_instance_id is not None and at_ts - last_ts < member.rebalance_timeout
    return LEAVE if is_kept or not may_have_missed_rebalance else UNKNOWN


def may_have_expired(member: ClassicMember, alive_ts: int, at_ts: int, committed: Activity | None) -> bool:
    """Return whether the member's session may have ended before `at_ts`."""
    last = max([alive_ts, *list_time(committed.last_plain_ts if committed else None)])
    return member.session_timeout <= 0 or at_ts - last >= member.session_timeout


def may_have_missed_rebalance(
    formed_ts: int, at_ts: int, patience_ms: int, stayed: Sequence[Activity | None], *, is_alone: bool, is_eager: bool
) -> bool:
    """Return whether a join phase may have waited for a member for `patience_ms`, and ended without it at `at_ts`.

    `formed_ts` is when the generation before began, `stayed` what those committed since that are still there.
    """
    if is_alone or at_ts - formed_ts < patience_ms:
        return False
    since_ts = at_ts - SHARE_OF_PATIENCE * patience_ms
    are_busy = all(one is not None and (one.last_plain_ts or 0) > since_ts for one in stayed)
    return not (is_eager and stayed and are_busy)


def list_time(ts: int | None) -> list[int]:
    """Return a time as a list, of which None is none."""
    return [] if ts is None else [ts]


def together(parts: Iterable[Activity]) -> Activity | None:
    """Join the activity of several partitions into one; None for none."""
    known = list(parts)
    if not known:
        return None
    plain = [ts for one in known for ts in list_time(one.last_plain_ts)]
    return Activity(
        min(one.first_ts for one in known),
        max(one.last_ts for one in known),
        max(plain, default=None),
        sum(one.commits for one in known),
        max(one.back_ms for one in known),
    )


def follow(before: Activity, later: Activity) -> Activity:
    """Join the activity of one partition, of which the later one lies behind the other in the log."""
    both = together([before, later])
    assert both is not None, "there are two"
    return msgspec.structs.replace(both, back_ms=max(both.back_ms, before.last_ts - later.first_ts))


def has_clock_gone_back(begun_ts: int, record_ts: int, step: Iterable[Activity]) -> bool:
    """Return whether a later record of a step has an earlier time than one before it, by more than clocks are slewed.

    `begun_ts` is that of the record that began the step, `record_ts` that of the one that ends it.
    """
    known = list(step)
    newest_ts = max([begun_ts, *(one.last_ts for one in known)])
    back_ms = [newest_ts - record_ts, *(one.back_ms for one in known), *(begun_ts - one.first_ts for one in known)]
    return max(back_ms) > SLEW_MS
