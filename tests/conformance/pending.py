"""Stories that Kafka has told and Muster does not tell yet, each with what is missing. They are not played.

Whoever makes one of them true takes it out of here. Nothing may stay: what is meant to differ is a row of
docs/differences.md.
"""

from collections.abc import Mapping

_TIMEOUT = "a rebalance timeout of 0 or less: the shard fires the same timer for ever"
_LONG_ID = "a generated member id of more than 32,767 bytes is UNKNOWN_SERVER_ERROR, and changes nothing"

PENDING: Mapping[str, str] = {
    "rebalance_timeouts_that_are_no_time": _TIMEOUT,
    "a_static_member_with_no_rebalance_timeout_stays_when_the_other_leaves": _TIMEOUT,
    "members_without_a_rebalance_timeout_have_no_time_to_sync": _TIMEOUT,
    "rebalance_timeouts_of_a_consumer_member_that_are_no_time": _TIMEOUT,
    "a_client_id_that_leaves_no_room_for_a_uuid": _LONG_ID,
    "a_client_id_that_just_leaves_room_for_a_uuid": _LONG_ID,
    "an_instance_id_that_leaves_no_room_for_a_uuid": _LONG_ID,
    "the_last_epoch_with_a_transaction_open": "EndTxn v5 with the epoch before the last, once the transaction is over, "
    "is the retry of an abort: NONE with the epoch that is",
    "a_transaction_with_partitions_of_the_offsets_topic": "AddPartitionsToTxn refuses internal topics with "
    "TOPIC_AUTHORIZATION_FAILED, Produce asks for the transaction before it looks at the topic",
    "the_configs_of_the_offsets_topic": "segment.bytes of the offsets topic is offsets.topic.segment.bytes",
}
