"""The limit of what Python can do with these bytes: codecs for two APIs, written by hand with `struct`.

They make the same message objects as the real codec and check nothing: no bounds, no varints above two bytes, no tags,
no nulls but those that occur. What the derived codec takes more than they do is the price of being safe and derived.
"""

from struct import Struct

from protocol.header import Request
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic

_HEADER = Struct(">hhih").unpack_from
_INT32_LENGTH = Struct(">iB").unpack_from
_PARTITION = Struct(">iqiB").unpack_from
_HEARTBEAT_RESPONSE = Struct(">iiBihB").pack


def decode_heartbeat_v4(data: bytes) -> Request:
    api_key, version, correlation_id, size = _HEADER(data, 0)
    at = 10 + size
    client_id = data[10:at].decode()
    at += 1  # tags
    end = at + data[at]
    group_id = data[at + 1 : end].decode()
    generation_id, size = _INT32_LENGTH(data, end)
    at = end + 5
    end = at + size - 1
    member_id = data[at:end].decode()
    size = data[end]
    group_instance_id = data[end + 1 : end + size].decode() if size else None
    body = HeartbeatRequest(group_id, generation_id, member_id, group_instance_id)
    return Request(api_key, version, correlation_id, client_id, body)


def encode_heartbeat_v4(correlation_id: int, message: HeartbeatResponse) -> bytes:
    return _HEARTBEAT_RESPONSE(12, correlation_id, 0, message.throttle_time_ms, message.error_code, 0)


def decode_offset_commit_v8(data: bytes) -> Request:
    api_key, version, correlation_id, size = _HEADER(data, 0)
    at = 10 + size
    client_id = data[10:at].decode()
    at += 1
    end = at + data[at]
    group_id = data[at + 1 : end].decode()
    epoch, size = _INT32_LENGTH(data, end)
    at = end + 5
    end = at + size - 1
    member_id = data[at:end].decode()
    size = data[end]
    at = end + 1
    group_instance_id = None
    if size:
        group_instance_id = data[at : at + size - 1].decode()
        at += size - 1
    topics = []
    count = data[at]
    at += 1
    for _ in range(count - 1):
        end = at + data[at]
        name = data[at + 1 : end].decode()
        count, at = data[end], end + 1
        if count > 127:
            count = count & 127 | data[at] << 7
            at += 1
        partitions = []
        for _ in range(count - 1):
            index, offset, leader_epoch, size = _PARTITION(data, at)
            at += 17
            metadata: str | None = ""
            if size > 1:
                end = at + size - 1
                metadata = data[at:end].decode()
                at = end
            elif not size:
                metadata = None
            at += 1
            partitions.append(OffsetCommitRequestPartition(index, offset, leader_epoch, -1, metadata))
        at += 1
        topics.append(OffsetCommitRequestTopic(name, bytes(16), tuple(partitions)))
    body = OffsetCommitRequest(group_id, epoch, member_id, group_instance_id, -1, tuple(topics))
    return Request(api_key, version, correlation_id, client_id, body)
