"""The groups of a cluster. Not a subcommand."""

from collections.abc import Iterator, Sequence
from typing import Any

from coordinator.cli.cluster import Cluster, check
from protocol.messages.list_groups import ListGroupsRequest


def list_groups(cluster: Cluster, states: Sequence[str], types: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the groups of every broker: each knows those that it coordinates."""
    for client in cluster.brokers().values():
        response = client.ask(ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types)))
        check("list groups", response.error_code)
        for one in response.groups:
            yield {
                "group": one.group_id, "type": one.group_type, "state": one.group_state, "protocol": one.protocol_type
            }  # fmt: skip
