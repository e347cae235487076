"""A released consumer of kafka-python, which does on signals what `member` does.

python -m tests.pipeline.staged.python_member '{"bootstrap.servers": ...}' topic [another topic]
"""

import json
import sys

from kafka import KafkaConsumer

from tests.pipeline.staged.member import consume, note_signals

NAMES = {
    "bootstrap.servers": "bootstrap_servers", "group.id": "group_id", "auto.offset.reset": "auto_offset_reset",
    "auto.commit.interval.ms": "auto_commit_interval_ms", "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms", "max.poll.interval.ms": "max_poll_interval_ms",
    "topic.metadata.refresh.interval.ms": "metadata_max_age_ms", "group.instance.id": "group_instance_id",
}  # fmt: skip


def main() -> None:
    conf, wishes = json.loads(sys.argv[1]), note_signals()
    consumer = KafkaConsumer(**{NAMES[name]: value for name, value in conf.items() if name in NAMES})
    consumer.subscribe(sys.argv[2:3])
    consume(consumer, lambda: consumer.poll(200), wishes)


if __name__ == "__main__":
    main()
