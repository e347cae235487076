"""Ask Apache Kafka's assignors afresh and record what they answer.

    python -m tests.conformance.assignors.record KAFKA_JARS [--seed 1] [--lives 110]

KAFKA_JARS is a directory with Kafka's jars (kafka-group-coordinator and what it needs, for instance by Maven's
`dependency:copy-dependencies`). It needs a JDK 17. Nothing in a default run of the tests calls it.
"""

import argparse
import gzip
import json
import subprocess
import tempfile
from pathlib import Path

from tests.conformance.assignors.questions import questions

HERE = Path(__file__).parent
RECORDED = HERE / "recorded.jsonl.gz"


def ask_kafka(jars: Path, lines: list[str]) -> list[str]:
    """Compile the Java program, hand it the questions, take its answers."""
    with tempfile.TemporaryDirectory() as classes:
        subprocess.run(
            ["javac", "-cp", f"{jars}/*", "-d", classes, str(HERE / "Assignors.java")], check=True, timeout=120
        )
        done = subprocess.run(
            ["java", "-cp", f"{classes}:{jars}/*", "Assignors"],
            check=True, input="\n".join(lines), stdout=subprocess.PIPE, text=True, timeout=300,
        )  # fmt: skip
    return done.stdout.splitlines()


def main() -> None:
    """Record question and answer, one pair a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jars", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lives", type=int, default=110)
    arguments = parser.parse_args()
    asked = [json.dumps(question, separators=(",", ":")) for question in questions(arguments.seed, arguments.lives, 6)]
    answers = ask_kafka(arguments.jars, asked)
    assert len(answers) == len(asked), "Kafka's assignors answered fewer questions than they were asked"
    lines = [f'{{"question":{question},"answer":{answer}}}\n' for question, answer in zip(asked, answers, strict=True)]
    RECORDED.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    print(f"{len(lines)} questions, seed {arguments.seed}, {RECORDED.stat().st_size} bytes")


if __name__ == "__main__":
    main()
