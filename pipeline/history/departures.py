"""How a member of a classic group left: whether it said so, or its session ended.

Both look the same in a log: a generation without the member. What tells them apart is when it was last alive. Every
commit of a member renews its session, so a member that is gone within its session after one did not time out, unless a
rebalance that had begun for another reason waited for it in vain. The other way round, silence for a session proves
nothing: a member that commits rarely may leave, and the others may take their time to rejoin. A timeout is named only
if the member and all that stayed committed so often that after a LeaveGroup they would have rejoined long before, and
if the silence is as long as a session and hardly longer. Of a group that is empty then, nobody could say so. In all
other cases the log cannot tell: `leave_or_timeout`.
"""

from collections.abc import Iterable, Sequence

from pipeline.history.records import SCALES_MS, STRETCHES, Activity, ClassicMember

LEAVE, TIMEOUT, UNKNOWN = "leave", "timeout", "leave_or_timeout"
SHOWS_RHYTHM = 3  # stretches with commits, within half a session
HEARTBEATS = 0.1  # of a session: how soon a member hears that the group rebalances, at the usual settings


def classify_departure(
    member: ClassicMember,
    alive_ts: int,
    at_ts: int,
    committed: Activity | None,
    stayed: Sequence[Activity | None],
    *,
    may_have_missed_rebalance: bool,
) -> str:
    """Say how a member left that is gone at `at_ts`, when the join phase was over: leave, timeout or leave_or_timeout.

    `alive_ts` is when the member last joined. `committed` is what it committed since the last step, `stayed` the same
    of each member with partitions that is still there (None: nothing).
    """
    if member.session_timeout <= 0:
        return UNKNOWN
    last = max([alive_ts, *_list_time(committed.last_plain_ts if committed else None)])
    if at_ts - last < member.session_timeout:
        return UNKNOWN if may_have_missed_rebalance else LEAVE
    if committed is None or committed.last_plain_ts is None or not stayed:
        return UNKNOWN
    if alive_ts > committed.last_plain_ts:
        return UNKNOWN
    return TIMEOUT if _fell_silent(member.session_timeout, at_ts, alive_ts, committed, stayed) else UNKNOWN


def _list_time(ts: int | None) -> list[int]:
    return [] if ts is None else [ts]


def _fell_silent(
    session_ms: int, at_ts: int, alive_ts: int, committed: Activity, stayed: Sequence[Activity | None]
) -> bool:
    """Return whether the member was silent for its session while everybody had a rhythm that would have ended it
    sooner."""
    scale = next((i for i, ms in enumerate(SCALES_MS) if STRETCHES * ms >= 3 * session_ms), None)
    if scale is None or committed.last_plain_ts is None:
        return False
    ms = SCALES_MS[scale]
    beats = committed.beats[scale]
    newest = (beats & -beats).bit_length() - 1  # how many stretches ago it committed last
    oldest = min(newest + -(-session_ms // (2 * ms)), (at_ts - alive_ts) // ms)
    rhythm = beats >> newest & (1 << oldest - newest + 1) - 1 if newest >= 0 and oldest > newest else 0
    if rhythm.bit_count() < SHOWS_RHYTHM or oldest >= STRETCHES:
        return False
    own_ms = longest_pause(beats, newest, oldest) * ms
    others_ms = max((longest_pause(one.beats[scale] if one else 0, 0, newest) * ms for one in stayed), default=0)
    rejoin_ms = others_ms + HEARTBEATS * session_ms
    silence_ms = at_ts - committed.last_plain_ts
    return own_ms + rejoin_ms < session_ms and silence_ms <= session_ms + own_ms + rejoin_ms


def longest_pause(beats: int, first: int, last: int) -> int:
    """Return the largest distance between neighbouring set bits from `first` to `last`, as if those two were set.

    In stretches: 1 for a commit in every stretch.
    """
    longest = pause = 0
    for i in range(first, last + 1):
        pause = 0 if beats >> i & 1 else pause + 1
        longest = max(longest, pause)
    return longest + 1


def together(parts: Iterable[Activity]) -> Activity | None:
    """Join the activity of several partitions into one; None for none."""
    known = list(parts)
    if not known:
        return None
    plain = [ts for one in known for ts in _list_time(one.last_plain_ts)]
    beats = [0] * len(SCALES_MS)
    for one in known:
        beats = [mine | theirs for mine, theirs in zip(beats, one.beats, strict=True)]
    return Activity(
        min(one.first_ts for one in known), max(one.last_ts for one in known), max(plain, default=None), tuple(beats)
    )
