"""A live group of a released client moves to the consumer protocol (KIP-848) and back."""

from tests.compat.consumer_protocol import PARTITIONS, SETTINGS, move_there_and_back
from tests.compat.consumers import Member
from tests.live import Muster, server_fixture

CLIENT = "confluent-kafka"


muster = server_fixture(f"--topic=orders:{PARTITIONS}", *[f"--set={one}" for one in SETTINGS], scope="function")


def test_a_live_group_moves_to_the_consumer_protocol_and_back(muster: Muster) -> None:
    """A rolling upgrade, and a rolling downgrade, under load."""
    move_there_and_back(muster, lambda protocol: Member(CLIENT, muster.kafka, "shop", "orders", protocol))
