"""How scripts tell what happened: events, records, answers and times, each in a line."""

from collections.abc import Callable
from typing import Any

from coordinator.core.events import Event
from coordinator.core.records import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue, Record
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsResponseDescribedGroup
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupResponse
from protocol.messages.offset_commit import OffsetCommitResponse
from protocol.messages.offset_delete import OffsetDeleteResponse
from protocol.messages.sync_group import SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitResponse

RESPONSES: dict[type, Callable[[Any], str]] = {}  # other files add theirs
VALUES: dict[type, Callable[[Any], str]] = {}  # of records


def clock(ms: int) -> str:
    """`0:03`, `1:30.250`, `2:00:00`, `7d 0:00`: since the script began."""
    seconds, left = divmod(abs(ms), 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    text = f"{minutes}:{seconds:02}" if not hours else f"{hours}:{minutes:02}:{seconds:02}"
    text = f"{days}d {text}" if days else text
    return ("-" if ms < 0 else "") + (f"{text}.{left:03}" if left else text)


def error(code: int) -> str:
    return "ok" if code == 0 else f"{ErrorCode(code).name}({int(code)})"


def timer(key: tuple[str, str, str]) -> str:
    """`session/a-1`, `join`; the group is named unless it is g."""
    kind, group_id, member_id = key
    where = "" if group_id in ("g", "") else f"{group_id}:"
    return f"{where}{kind}/{member_id}" if member_id else f"{where}{kind}"


def event(event: Event) -> str:
    """`state Stable -> PreparingRebalance: member joined b-2`; a still stand is only told with its cause."""
    who = f" {event.member}" if event.member else ""
    where = "" if event.group == "g" else f"{event.group}: "
    why = f' "{event.reason}"' if event.reason else ""
    move = f"state {event.before} -> {event.after}: " if event.before != event.after else "event "
    return f"{where}{move}{event.cause.words}{who}{why}"


def record(record: Record, producer_id: int, start_ms: int) -> str:
    """`record offset g t/0 = 5`, `record group g generation=1 ...`, `record gone ...`."""
    key, value = record.key, record.value
    pending = f" pending for producer {producer_id}" if producer_id != -1 else ""
    if isinstance(key, OffsetCommitKey):
        name = f"offset {key.group} {key.topic}/{key.partition}"
    else:
        name = " ".join([_kind(key), *(str(getattr(key, field)) for field in key.__struct_fields__)])
    if value is None:
        return f"record {name} gone"
    if isinstance(value, OffsetCommitValue):
        return f"record {name} = {_offset(value, start_ms)}{pending}"
    if isinstance(value, GroupMetadataValue):
        return f"record {name} = {_group(value)}"
    return f"record {name} = {VALUES.get(type(value), str)(value)}"


def _kind(key: Any) -> str:
    name = type(key).__name__.removesuffix("Key")
    return {"GroupMetadata": "group"}.get(name, name)


def opaque(data: bytes) -> str:
    """What members say to each other: words in most scripts, real bytes in some."""
    return data.decode() if data.isascii() and b"\0" not in data else f"{len(data)} bytes"


def short(text: str) -> str:
    """A text, or the first character of a long one and how often it stands there."""
    return repr(text) if len(text) <= 40 else f"{text[0]!r}*{len(text)}"


def topic(topic: Any) -> str:
    """Its name, or its id with a # behind it."""
    return topic.name or (topic.topic_id.decode().rstrip(".") if any(topic.topic_id) else "zero") + "#"


def _offset(value: OffsetCommitValue, start_ms: int) -> str:
    text = str(value.offset)
    text += f" epoch={value.leader_epoch}" if value.leader_epoch != -1 else ""
    text += f" metadata={short(value.metadata)}" if value.metadata else ""
    text += f" at {clock(value.commit_timestamp - start_ms)}"
    return text + (f" until {clock(value.expire_timestamp - start_ms)}" if value.expire_timestamp != -1 else "")


def _group(value: GroupMetadataValue) -> str:
    members = " ".join(
        f"{member.member_id}{'@' + member.group_instance_id if member.group_instance_id is not None else ''}"
        f":{opaque(member.assignment)}"
        for member in value.members
    )
    return (
        f"generation={value.generation} type={value.protocol_type or '-'} protocol={value.protocol or '-'} "
        f"leader={value.leader or '-'} members=({members})"
    )


def response(response: Any) -> str:
    """An answer, as short as it can be without hiding anything that a client decides by."""
    return RESPONSES[type(response)](response)


def _join(answer: JoinGroupResponse) -> str:
    if answer.error_code:
        name = "" if answer.protocol_name is None else f" protocol={answer.protocol_name!r}"
        return f"{error(answer.error_code)} member={answer.member_id or '-'}{name}"
    members = " ".join(
        member.member_id + ("" if member.group_instance_id is None else f"@{member.group_instance_id}")
        for member in answer.members
    )
    skip = " skip" if answer.skip_assignment else ""
    return (
        f"joined generation={answer.generation_id} {answer.protocol_type}/{answer.protocol_name} "
        f"member={answer.member_id} leader={answer.leader}{skip} members=({members})"
    )


def _sync(answer: SyncGroupResponse) -> str:
    if answer.error_code:
        assert (answer.protocol_type, answer.protocol_name, answer.assignment) == (None, None, b"")
        return error(answer.error_code)
    return f"assigned {opaque(answer.assignment)!r} {answer.protocol_type}/{answer.protocol_name}"


def _leave(answer: LeaveGroupResponse) -> str:
    members = " ".join(
        f"{member.member_id or '-'}"
        f"{'@' + member.group_instance_id if member.group_instance_id is not None else ''}:{error(member.error_code)}"
        for member in answer.members
    )
    return f"{error(answer.error_code)} ({members})" if answer.members else error(answer.error_code)


def by_partition(topics: Any) -> str:
    """`t/0:ok t/1:OFFSET_METADATA_TOO_LARGE(12)`."""
    return " ".join(
        f"{topic(each)}/{partition.partition_index}:{error(partition.error_code)}"
        for each in topics
        for partition in each.partitions
    )


def _described(group: DescribeGroupsResponseDescribedGroup) -> str:
    head = (
        f"{error(group.error_code)} {group.group_state} type={group.protocol_type!r} protocol={group.protocol_data!r}"
    )
    lines = [head + (f" {group.error_message!r}" if group.error_message else "")]
    for member in group.members:
        instance = "" if member.group_instance_id is None else f"@{member.group_instance_id}"
        lines.append(
            f"  {member.member_id}{instance} client={member.client_id} host={member.client_host} "
            f"metadata={len(member.member_metadata)} bytes assignment={opaque(member.member_assignment)!r}"
        )
    return "\n".join(lines)


RESPONSES |= {
    JoinGroupResponse: _join,
    SyncGroupResponse: _sync,
    HeartbeatResponse: lambda answer: error(answer.error_code),
    LeaveGroupResponse: _leave,
    OffsetCommitResponse: lambda answer: by_partition(answer.topics) or "nothing",
    TxnOffsetCommitResponse: lambda answer: by_partition(answer.topics) or "nothing",
    OffsetDeleteResponse: lambda answer: (
        by_partition(answer.topics) if not answer.error_code else error(answer.error_code)
    ),
    DescribeGroupsResponseDescribedGroup: _described,
}
