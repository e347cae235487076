"""Where a group stands in each partition: offset, end, lag, owner. Not a subcommand."""

from typing import Any, Final

from coordinator.cli.cluster import Cluster, check
from coordinator.cli.group_offsets import fetch_offsets
from coordinator.cli.group_view import DescribedGroup, DescribedMember
from coordinator.cli.tables import count
from coordinator.client.offsets import LATEST, list_offsets
from protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)

SHARE: Final = "share"  # types of groups
STREAMS: Final = "streams"


def total_lag(positions: list[dict[str, Any]]) -> int | None:
    """Return the lag of all partitions with a committed offset; None if there is none.

    An offset beyond the end makes up for no lag elsewhere: see `count_beyond_end`.
    """
    lags = [one["lag"] for one in positions if one["lag"] is not None]
    return sum(max(lag, 0) for lag in lags) if lags else None


def count_beyond_end(positions: list[dict[str, Any]]) -> int:
    """Return how many partitions end before their committed offset: logs that were cut, or topics made anew."""
    return sum(one["lag"] is not None and one["lag"] < 0 for one in positions)


def describe_lag(positions: list[dict[str, Any]]) -> str | None:
    """Return the lag in words, and of how many partitions the committed offset lies beyond the end."""
    lag, beyond = total_lag(positions), count_beyond_end(positions)
    if lag is None:
        return None
    return f"lag {lag}" + (f", {count(beyond, 'committed offset')} beyond the end" if beyond else "")


def find_positions(cluster: Cluster, group: DescribedGroup) -> list[dict[str, Any]]:
    """Return the partitions that have a committed offset or an owner: the offset, the end, the lag and the owner of
    each, where an offset beyond the end is a lag below 0, as Kafka's tool has it; of a share group, whose members
    share them, those that it has read, with start offset and lag."""
    return _find_start_offsets(cluster, group) if group.type == SHARE else _find_committed_offsets(cluster, group)


def _find_start_offsets(cluster: Cluster, group: DescribedGroup) -> list[dict[str, Any]]:
    request = DescribeShareGroupOffsetsRequest((DescribeShareGroupOffsetsRequestGroup(group.group),))
    response = cluster.ask_coordinator(group.group, request, lambda found: [one.error_code for one in found.groups])
    (found,) = response.groups
    check(f"describe the offsets of {group.group}", found.error_code, found.error_message)
    return [
        {
            "topic": topic.topic_name,
            "partition": one.partition_index,
            "start_offset": None if one.start_offset < 0 else one.start_offset,
            "lag": None if one.lag < 0 else one.lag,
        }
        for topic in sorted(found.topics, key=lambda topic: topic.topic_name)
        for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        if not one.error_code
    ]


def _find_committed_offsets(cluster: Cluster, group: DescribedGroup) -> list[dict[str, Any]]:
    committed = {(one.topic, one.partition): one.offset for one in fetch_offsets(cluster, group.group)}
    owners = {
        (topic, number): member
        for member in group.members
        for topic, numbers in member.assignment.items()
        for number in numbers
    }
    told = committed.keys() | owners.keys()
    ends = list_offsets(cluster, told, LATEST)
    if group.type == STREAMS:  # a task reads the topics of its subtopology that have so many partitions
        told = committed.keys() | (owners.keys() & ends.keys())
    positions = []
    for key in sorted(told):
        offset, end = committed.get(key), ends.get(key)
        positions.append(
            {
                "topic": key[0],
                "partition": key[1],
                "committed_offset": offset,
                "log_end_offset": end,
                "lag": None if offset is None or end is None else end - offset,
                **owner_of(owners.get(key)),
            }
        )
    return positions


def owner_of(member: DescribedMember | None) -> dict[str, str | None]:
    """Return what the tables show of a member; all empty for none."""
    if member is None:
        return {"member_id": None, "instance_id": None, "host": None, "client_id": None}
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
    }
