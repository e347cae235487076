"""Have Apache Kafka's own serializer write every message in every version: an oracle that is not ours.

    python -m tests.protocol.kafka_serializer --jars DIR --version 4.3.1 --out tests/protocol/golden

DIR holds `kafka-clients-VERSION.jar` and what it needs (jackson, slf4j); Java 17 or newer is needed. The values are made
from the message files inside of that jar, which say what Kafka holds to be true. Of each message and version there are
two: one with something in every field, one as empty as the version allows.

It writes `kafka-clients-VERSION.jsonl`, a line for each: {"message", "version", "frame", "values"}, the frame in hex and
without its size. `--below FILE` leaves out what an earlier file has.
"""

import argparse
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocol.apis import BY_NAME, TABLE
from tests.protocol.kafka_serializer.values import MessageFile, read_cases

HERE = Path(__file__).parent


def cases(jar: Path) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Message, version and values, of all that the jar has and our table names."""
    for api in TABLE:
        for direction in ("Request", "Response"):
            if file := MessageFile.load(jar, api.name + direction):
                for version in file.versions:
                    yield file.name, version, file.full(version)
                    yield file.name, version, file.empty(version)


def frames(jars: Path, wanted: list[tuple[str, int, dict[str, Any]]]) -> list[str]:
    lines = [f"{name}\t{key_of(name)}\t{version}\t{json.dumps(values)}\n" for name, version, values in wanted]
    command = ["java", "-cp", f"{jars}/*", str(HERE / "Serialize.java")]
    done = subprocess.run(command, input="".join(lines), capture_output=True, text=True, check=True, timeout=300)
    written = done.stdout.splitlines()
    assert len(written) == len(wanted), done.stderr
    return written


def key_of(message: str) -> int:
    return BY_NAME[message.removesuffix("Request").removesuffix("Response")].key


def main() -> None:
    parser = argparse.ArgumentParser(description="Write golden messages by Apache Kafka's own serializer.")
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument("--version", required=True, help="of kafka-clients")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--below", type=Path, help="a file whose messages and versions are left out")
    options = parser.parse_args()
    known = {(case["message"], case["version"]) for case in read_cases(options.below)} if options.below else set()
    jar = options.jars / f"kafka-clients-{options.version}.jar"
    wanted = [case for case in cases(jar) if case[:2] not in known]
    with (options.out / f"kafka-clients-{options.version}.jsonl").open("w", encoding="utf-8") as out:
        for (name, version, values), frame in zip(wanted, frames(options.jars, wanted), strict=True):
            line = {"message": name, "version": version, "frame": frame, "values": values}
            out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
