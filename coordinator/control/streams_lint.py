"""Find members of streams groups that hold it up: they do not give up tasks, or are of an older version."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from coordinator.control.finding import Finding
from coordinator.control.journal import Entry
from protocol.apis import APIS
from protocol.codec import decode_request, decode_response
from protocol.errors import ProtocolError
from protocol.messages.streams_group_heartbeat import StatusCode

API: Final = "StreamsGroupHeartbeat"
KEPT_MIN: Final = 3  # reports of a task after the member was told to give it up: the first may have been on its way

Tasks = frozenset[tuple[str, str, int]]  # role, subtopology, partition


def find_holdups(entries: Iterable[Entry]) -> Iterator[Finding]:
    """Yield a finding about each member that goes on to report tasks that it has to give up, and about each client
    whose application has an older topology than its group."""
    stale: Counter[tuple[str, str]] = Counter()
    kept: Counter[tuple[str, str, str]] = Counter()  # reports in a row, by group, member and client
    told: dict[tuple[str, str], Tasks] = {}
    for entry in entries:
        if entry.response is None or APIS[entry.api_key].name != API:
            continue
        request = decode_request(entry.frame)
        try:
            response = decode_response(entry.api_key, entry.version, entry.response[4:]).body
        except ProtocolError:  # a fault has cut the response short
            continue
        said, client = request.body, request.client_id or ""
        member = (said.group_id, said.member_id)
        reported = _tasks(said)
        if reported is not None and member in told:
            is_late = bool(reported - told[member])
            counted = (*member, client)
            if is_late or kept[counted] < KEPT_MIN:
                kept[counted] = kept[counted] + 1 if is_late else 0
        if (given := _tasks(response)) is not None:
            told[member] = given
        stale[said.group_id, client] += any(
            one.status_code == StatusCode.STALE_TOPOLOGY for one in response.status or ()
        )
    for (group, _, client), count in kept.items():
        if count >= KEPT_MIN:
            evidence = f"{count} reports in a row, of tasks that the member has to give up"
            yield Finding("tasks_not_given_up", client, group, evidence)
    for (group, client), count in stale.items():
        if count:
            times = f"{count} heartbeat{'' if count == 1 else 's'}"
            yield Finding("stale_topology", client, group, f"{times}, of an older topology than the group's")


def _tasks(message: Any) -> Tasks | None:
    """Return the tasks of a request or a response; None where it says that nothing has changed."""
    if message.active_tasks is None or message.standby_tasks is None:
        return None
    return frozenset(
        (role, each.subtopology_id, partition)
        for role, listed in (("active", message.active_tasks), ("standby", message.standby_tasks))
        for each in listed
        for partition in each.partitions
    )
