"""Muster's own error messages and events in each story, which Kafka has not: `messages.jsonl` has a line for each story.

    python -m tests.conformance.messages

writes them anew; read the difference.
"""

import json
from pathlib import Path

from tests.conformance.replay import replay
from tests.conformance.story import tell_all

FILE = Path(__file__).with_suffix(".jsonl")
MESSAGES: dict[str, set[str]] = {
    name: set(messages) for line in FILE.read_text("utf-8").splitlines() for name, messages in json.loads(line).items()
}


def main() -> None:
    lines = []
    for name, story in sorted(tell_all().items()):
        messages: set[str] = set()
        replay(story, messages)
        if messages:
            lines.append(json.dumps({name: sorted(messages)}) + "\n")
    FILE.write_text("".join(lines), "utf-8")


if __name__ == "__main__":
    main()
