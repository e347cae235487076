"""Groups are described on brokers of any age."""

from typing import Any

from coordinator.cli.group_view import describe_group
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
)
from protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseDescribedGroup,
)


class OldCluster:
    """A Kafka 3.9 whose consumer protocol is switched off: it offers ConsumerGroupDescribe, and refuses it."""

    any: Any

    def __init__(self) -> None:
        self.any = self

    def versions(self, message: Any) -> range:
        return range(int(isinstance(message, (ConsumerGroupDescribeRequest, DescribeGroupsRequest))))

    def ask_coordinator(self, group: str, message: Any, _codes: Any) -> Any:
        if isinstance(message, ConsumerGroupDescribeRequest):
            refused = ConsumerGroupDescribeResponseDescribedGroup(ErrorCode.UNSUPPORTED_VERSION, group_id=group)
            return ConsumerGroupDescribeResponse(groups=(refused,))
        return DescribeGroupsResponse(
            groups=(DescribeGroupsResponseDescribedGroup(group_id=group, group_state="Stable"),)
        )


def test_a_broker_that_offers_a_request_and_refuses_it_is_asked_in_the_older_way() -> None:
    found = describe_group(OldCluster(), "shop")  # type: ignore[arg-type]  # what is asked of a cluster
    assert found is not None
    assert (found.group, found.type, found.state) == ("shop", "classic", "Stable")
