"""A released member of a share group in a process of its own. On SIGTERM it closes.

python -m tests.pipeline.staged.share_member '{"bootstrap.servers": ...}' topic
"""

import json
import signal
import sys
import threading

from confluent_kafka import ShareConsumer

OWN = ("bootstrap.servers", "group.id", "log_level", "client.id")  # settings that a share consumer has, too


def main() -> None:
    conf = json.loads(sys.argv[1])
    consumer, is_over = ShareConsumer({name: conf[name] for name in OWN if name in conf}), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    consumer.subscribe(sys.argv[2:3])
    while not is_over.is_set():
        consumer.poll(0.2)
    consumer.close()


if __name__ == "__main__":
    main()
