"""A released consumer in a process of its own, which a stage sends signals: TERM to close, USR1 to want another topic, USR2 to be stuck.

python -m tests.pipeline.staged.member '{"bootstrap.servers": ...}' topic [another topic]
"""

import json
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any


def main() -> None:
    from confluent_kafka import Consumer  # kafka-python's member imports this module without it

    def report(_consumer: Consumer, partitions: list[Any]) -> None:
        print("assigned", len(partitions), flush=True)

    consumer, wishes = Consumer(json.loads(sys.argv[1])), note_signals()
    consumer.subscribe(sys.argv[2:3], on_assign=report)
    consume(consumer, lambda: consumer.poll(0.2), wishes)


def note_signals() -> list[int]:
    """Return a list to which the signals that come are added."""
    wishes = list[int]()

    def note(number: int, _frame: FrameType | None) -> None:
        wishes.append(number)

    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, note)
    return wishes


def consume(consumer: Any, poll: Callable[[], object], wishes: list[int]) -> None:
    """Poll until a signal says to close, and do what the others say. The consumer has subscribed to the first topic."""
    while True:
        poll()
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
