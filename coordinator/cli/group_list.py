"""The groups of a cluster. Not a subcommand."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from coordinator.cli.cluster import Cluster, check
from coordinator.client import Client, ClientError
from protocol.messages.list_groups import ListGroupsRequest

BY_STATE: Final = 4  # the first versions of ListGroups with these filters
BY_TYPE: Final = 5


def list_groups(cluster: Cluster, states: Sequence[str], types: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the groups of every broker: each knows those that it coordinates."""
    for client in cluster.brokers().values():
        _check_filters(client, states, types)
        response = client.ask(ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types)))
        check("list groups", response.error_code)
        for one in response.groups:
            yield {
                "group": one.group_id, "type": one.group_type, "state": one.group_state, "protocol": one.protocol_type
            }  # fmt: skip


def _check_filters(client: Client, states: Sequence[str], types: Sequence[str]) -> None:
    """Refuse a filter that the broker would not see: its list would have all groups."""
    newest = max(client.versions(ListGroupsRequest()), default=BY_TYPE)
    for filters, version, what, kafka in ((states, BY_STATE, "state", "2.6"), (types, BY_TYPE, "type", "3.8")):
        if filters and newest < version:
            raise ClientError(f"the broker is older than Kafka {kafka} and cannot list groups by {what}")
