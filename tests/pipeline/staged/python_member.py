"""A released consumer of kafka-python, which does on signals what `member` does.

python -m tests.pipeline.staged.python_member '{"bootstrap.servers": ...}' topic [another topic]
"""

import json
import signal
import sys
import time

from kafka import KafkaConsumer

NAMES = {
    "bootstrap.servers": "bootstrap_servers", "group.id": "group_id", "auto.offset.reset": "auto_offset_reset",
    "auto.commit.interval.ms": "auto_commit_interval_ms", "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms", "max.poll.interval.ms": "max_poll_interval_ms",
    "topic.metadata.refresh.interval.ms": "metadata_max_age_ms", "group.instance.id": "group_instance_id",
}  # fmt: skip


def main() -> None:
    conf, wishes = json.loads(sys.argv[1]), list[int]()
    consumer = KafkaConsumer(**{NAMES[name]: value for name, value in conf.items() if name in NAMES})
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, _frame: wishes.append(number))
    consumer.subscribe(sys.argv[2:3])
    while True:
        consumer.poll(200)
        wish = wishes.pop(0) if wishes else 0
        if wish == signal.SIGTERM:
            consumer.close()
            return
        if wish == signal.SIGUSR1:
            consumer.subscribe(sys.argv[2:])
        if wish == signal.SIGUSR2:
            time.sleep(15)


if __name__ == "__main__":
    main()
