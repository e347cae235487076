"""Compare our sticky assignor of tasks with Apache Kafka's class on random applications.

    python -m tests.core.assignors.kafka_sticky --jars DIR [--seed N] [--applications N] [--write FILE]

DIR holds `kafka-group-coordinator` 4.3.1 and what it needs; Java 17 or newer is needed. Each application is asked five
times, while its members and topics change. It prints its seed, and the first question whose answers differ. `--write`
saves each question with Kafka's answer, for `tests/core/assignors/test_sticky_tasks.py`.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from random import Random

from tests.core.assignors.kafka_sticky.histories import as_answer, as_question, play

QUESTIONS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare task assignments with Apache Kafka's.")
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--applications", type=int, default=400)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    dice = Random(options.seed)
    specs = [spec for _ in range(options.applications) for spec in play(dice, QUESTIONS)]
    questions = [json.dumps(as_question(spec)) for spec in specs]
    command = ["java", "-cp", f"{options.jars}/*", str(Path(__file__).parent / "Assign.java")]
    done = subprocess.run(command, input="\n".join(questions), capture_output=True, text=True, check=True, timeout=600)
    answers = done.stdout.splitlines()
    assert len(answers) == len(questions), done.stderr
    different = [at for at, spec in enumerate(specs) if json.loads(answers[at]) != as_answer(spec)]
    print(f"seed {options.seed}: {len(specs)} questions, {len(different)} answered differently")
    if different:
        at = different[0]
        sys.exit(f"question {questions[at]}\nKafka {answers[at]}\nMuster {json.dumps(as_answer(specs[at]))}")
    if options.write:
        lines = (
            f'{{"question":{question},"answer":{answer}}}\n'
            for question, answer in zip(questions, answers, strict=True)
        )
        options.write.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
