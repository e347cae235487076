"""Compare our assignor of tasks, or of share groups, with Apache Kafka's class on random groups.

    python -m tests.core.assignors.kafka_assignors sticky|simple --jars DIR [--seed N] [--groups N] [--write FILE]

DIR holds `kafka-group-coordinator` 4.3.1 and what it needs; Java 17 or newer is needed. Each group is asked five times,
while its members and topics change. It prints its seed, and the first question whose answers differ. `--write` saves
each question that Kafka answers with its answer, for `tests/core/assignors/test_sticky_tasks.py` and `test_simple.py`.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from types import ModuleType

from tests.core.assignors.kafka_assignors import simple, sticky

QUESTIONS = 5
ASSIGNORS: dict[str, tuple[ModuleType, str]] = {
    "sticky": (sticky, "AssignTasks.java"),
    "simple": (simple, "AssignSharePartitions.java"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare assignments with Apache Kafka's.")
    parser.add_argument("assignor", choices=ASSIGNORS)
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--groups", type=int, default=400)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    histories, program = ASSIGNORS[options.assignor]
    dice = Random(options.seed)
    asked = [question for _ in range(options.groups) for question in histories.play(dice, QUESTIONS)]
    questions = [json.dumps(histories.as_question(one)) for one in asked]
    command = ["java", "-cp", f"{options.jars}/*", str(Path(__file__).parent / program)]
    done = subprocess.run(command, input="\n".join(questions), capture_output=True, text=True, check=True, timeout=600)
    answers = done.stdout.splitlines()
    assert len(answers) == len(questions), done.stderr
    known = [at for at, answer in enumerate(answers) if answer != "null"]
    different = [at for at in known if json.loads(answers[at]) != histories.as_answer(asked[at])]
    print(f"seed {options.seed}: Kafka answers {len(known)} of {len(asked)} questions, {len(different)} differently")
    if options.write:
        lines = (f'{{"question":{questions[at]},"answer":{answers[at]}}}\n' for at in known)
        options.write.write_text("".join(lines), encoding="utf-8")
    if different:
        at = different[0]
        sys.exit(f"question {questions[at]}\nKafka {answers[at]}\nMuster {json.dumps(histories.as_answer(asked[at]))}")


if __name__ == "__main__":
    main()
