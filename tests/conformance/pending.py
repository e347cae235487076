"""Stories that Kafka has told and Muster does not tell yet, each with what is missing. They are not played.

Whoever makes one of them true takes it out of here. Nothing may stay: what is meant to differ is a row of
docs/differences.md.
"""

from collections.abc import Mapping

PENDING: Mapping[str, str] = {
    "a_transaction_with_partitions_of_the_offsets_topic": "AddPartitionsToTxn refuses internal topics with "
    "TOPIC_AUTHORIZATION_FAILED, Produce asks for the transaction before it looks at the topic",
    "the_configs_of_the_offsets_topic": "segment.bytes of the offsets topic is offsets.topic.segment.bytes",
}
