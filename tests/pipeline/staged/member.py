"""A released consumer in a process of its own, which a stage sends signals: TERM to close, USR1 to want another topic, USR2 to be stuck.

python -m tests.pipeline.staged.member '{"bootstrap.servers": ...}' topic [another topic]
"""

import json
import signal
import sys
import time
from types import FrameType

from confluent_kafka import Consumer


def main() -> None:
    consumer = Consumer(json.loads(sys.argv[1]))
    topics, wishes = sys.argv[2:3], list[int]()

    def note(number: int, _frame: FrameType | None) -> None:
        wishes.append(number)

    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, note)
    consumer.subscribe(topics, on_assign=lambda _consumer, parts: print("assigned", len(parts), flush=True))
    while True:
        consumer.poll(0.2)
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
