"""Find clients that misbehave, in the journal: the rule that is broken, the client, and the evidence."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from msgspec import Struct

from coordinator.control.finding import Finding
from coordinator.control.journal import Entry, error_names
from coordinator.control.share_lint import find_late_members
from coordinator.control.streams_lint import find_holdups
from coordinator.control.subject import Subject, subject_of
from protocol.apis import APIS, names_with
from protocol.codec import decode_request, decode_response
from protocol.errors import ProtocolError
from protocol.traits import Trait

REJOINS_MAX: Final = 10  # JoinGroups of one client within WINDOW_MS
FETCHES_MAX: Final = 500  # Fetches of one client within WINDOW_MS: ten times what max.wait.ms 500 leads to
WINDOW_MS: Final = 10_000
HEARTBEATS: Final = names_with(Trait.HEARTBEAT)
STALE_CODES: Final = frozenset({"ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH", "FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"})
REMOVED_CODES: Final = frozenset({"UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"})
DEAF_MIN: Final = 3  # heartbeats: the first one tells it, the second may have been on its way


def lint(entries: Iterable[Entry]) -> list[Finding]:
    """Return every finding about the clients whose requests are in the journal."""
    entries = list(entries)
    requests = [_ClientRecord(entry, *_read(entry)) for entry in entries]
    found = [
        *_find_storms(requests),
        *_find_stale_commits(requests),
        *_find_gaps(requests),
        *_find_twins(requests),
        *_find_deaf(requests),
        *find_late_members(entries),
        *find_holdups(entries),
    ]
    return sorted(found, key=lambda warning: (warning.rule, warning.group, warning.client))


class _ClientRecord(Struct, frozen=True):
    entry: Entry
    subject: Subject
    session_ms: int  # of a JoinGroup, else 0

    @property
    def group(self) -> str:
        return self.subject.groups[0] if self.subject.groups else ""


def _read(entry: Entry) -> tuple[Subject, int]:
    request = decode_request(entry.frame)
    subject = subject_of(APIS[request.api_key].name, request.client_id, request.body)
    return subject, getattr(request.body, "session_timeout_ms", 0)


def _find_storms(requests: list[_ClientRecord]) -> Iterator[Finding]:
    for rule, api, limit in (("rejoin_storm", "JoinGroup", REJOINS_MAX), ("fetch_flood", "Fetch", FETCHES_MAX)):
        times: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for seen in requests:
            if seen.subject.api == api:
                times[seen.group, seen.subject.client_id].append(seen.entry.at_ms)
        for (group, client), at in times.items():
            most, span_ms = _busiest_window(at)
            if most > limit:
                yield Finding(rule, client, group, f"{most} {api} requests in {span_ms / 1000:.1f} s")


def _busiest_window(times: list[int]) -> tuple[int, int]:
    """Return the greatest number of times within WINDOW_MS, and the milliseconds from the first to the last."""
    best = (0, 0)
    start = 0
    for end, at_ms in enumerate(times):
        while at_ms - times[start] > WINDOW_MS:
            start += 1
        best = max(best, (end - start + 1, at_ms - times[start]))
    return best


def _find_stale_commits(requests: list[_ClientRecord]) -> Iterator[Finding]:
    """Find commits by members whose partitions may belong to another member by now."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for seen in requests:
        if seen.subject.api in ("OffsetCommit", "TxnOffsetCommit"):
            for code in STALE_CODES.intersection(_errors(seen.entry)):
                counts[seen.group, seen.subject.client_id, code] += 1
    for (group, client, code), count in counts.items():
        commits = f"{count} commit{'' if count == 1 else 's'}"
        yield Finding("commit_after_revoke", client, group, f"{commits} answered {code}")


def _find_gaps(requests: list[_ClientRecord]) -> Iterator[Finding]:
    """Find heartbeats so far apart that one more delay would end the session."""
    sessions: dict[tuple[str, str], int] = {}
    last: dict[tuple[str, str], int] = {}
    worst: dict[tuple[str, str], tuple[float, int, int]] = {}  # the part of the session that it takes, both in ms
    for seen in requests:
        key = (seen.group, seen.subject.client_id)
        if seen.subject.api == "JoinGroup":
            sessions[key] = seen.session_ms
            last.pop(key, None)
        elif seen.subject.api == "Heartbeat":
            if key in last and (session_ms := sessions.get(key)):
                gap_ms = seen.entry.at_ms - last[key]
                worst[key] = max(worst.get(key, (0.0, 0, 0)), (gap_ms / session_ms, gap_ms, session_ms))
            last[key] = seen.entry.at_ms
    for (group, client), (part, gap_ms, session_ms) in worst.items():
        if part > 2 / 3:
            yield Finding(
                "heartbeat_gap", client, group, f"{gap_ms} ms between two heartbeats, session {session_ms} ms"
            )


def _find_deaf(requests: list[_ClientRecord]) -> Iterator[Finding]:
    """Find members that were removed, are told so by every heartbeat, and do not join again."""
    streaks: Counter[tuple[str, str]] = Counter()
    worst: Counter[tuple[str, str]] = Counter()
    for seen in requests:
        key = (seen.group, seen.subject.client_id)
        is_joining = seen.subject.api == "JoinGroup" or seen.subject.generation == 0
        if seen.subject.api in HEARTBEATS and not is_joining:
            streaks[key] = streaks[key] + 1 if REMOVED_CODES & set(_errors(seen.entry)) else 0
            worst[key] = max(worst[key], streaks[key])
        elif is_joining:
            streaks[key] = 0
    for (group, client), count in worst.items():
        if count >= DEAF_MIN:
            evidence = f"{count} heartbeats in a row answered that it is no member, and no attempt to join again"
            yield Finding("heartbeats_after_removal", client, group, evidence)


def _find_twins(requests: list[_ClientRecord]) -> Iterator[Finding]:
    """Find client ids of several members of a group: metrics, logs and quotas cannot tell these apart.

    Members whose heartbeats do not interleave may be one client, which was restarted.
    """
    beats: defaultdict[tuple[str, str], dict[str, range]] = defaultdict(dict)  # from the first request to the last one
    for seen in requests:
        if seen.subject.api in HEARTBEATS and seen.subject.client_id:
            for member in seen.subject.members:
                known = beats[seen.group, seen.subject.client_id]
                first = known[member].start if member in known else seen.entry.number
                known[member] = range(first, seen.entry.number)
    for (group, client), spans in beats.items():
        most = _count_at_once(spans.values())
        if most > 1:
            yield Finding("duplicate_client_id", client, group, f"{most} members share the client id")


def _count_at_once(spans: Collection[range]) -> int:
    """Return how many of these spans there are at once at the most. One of no length counts where it begins."""
    begins = sorted(span.start for span in spans if span)
    ends = sorted(span.stop for span in spans if span)
    return max(bisect_right(begins, one.start) - bisect_right(ends, one.start) + (not one) for one in spans)


def _errors(entry: Entry) -> set[str]:
    if entry.response is None:
        return set()
    try:
        return set(error_names(decode_response(entry.api_key, entry.version, entry.response[4:]).body))
    except ProtocolError:
        return set()
