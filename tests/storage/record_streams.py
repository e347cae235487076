"""Record what Kafka and Muster write of streams groups: `python -m tests.storage.record_streams JARS`.

Both are given the same applications, while the members live: the logs of `__consumer_offsets` as they lie on the disk,
what Kafka's own tool prints of each (`DumpLogSegments --offsets-decoder`), and what StreamsGroupDescribe says.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from coordinator.client import Client
from protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from tests.compat.foreign.streams_tools import GROUPS_MADE, SETTINGS, prepared
from tests.conformance import kafka
from tests.live import Muster
from tests.storage.kafka_tools import dump

RECORDING = Path(__file__).parent / "data" / "streams"
ONE_LOG = {**SETTINGS, "offsets.topic.num.partitions": "1", "num.partitions": "1"}
LOG = "__consumer_offsets-0"


def described(bootstrap: str) -> list[Any]:
    """Return what the broker says of the groups."""
    with Client.to(bootstrap) as client:
        answer = client.ask(StreamsGroupDescribeRequest(GROUPS_MADE))
    return [msgspec.to_builtins(group) for group in answer.groups]


def record(name: str, bootstrap: str, data: Path, jars: Path) -> None:
    """Record one broker, whose logs are in `data`."""
    target = RECORDING / name
    shutil.rmtree(target, ignore_errors=True)
    with prepared(bootstrap):
        groups = described(bootstrap)
        shutil.copytree(data / LOG, target / LOG, ignore=lambda _, names: [n for n in names if not n.endswith(".log")])
    (target / "described.json").write_bytes(msgspec.json.format(msgspec.json.encode(groups)))
    (target / "dump.txt").write_text(dump(jars, target / LOG))


def main() -> int:
    jars = Path(sys.argv[1])
    with kafka.broker(ONE_LOG) as broker:
        record("kafka", f"127.0.0.1:{broker.port}", broker.directory / "data", jars)
    settings = [f"--set={name}={value}" for name, value in ONE_LOG.items()]
    with tempfile.TemporaryDirectory() as folder, Muster(Path(folder), *settings) as muster:
        record("muster", muster.kafka, muster.data_dir, jars)
    return 0


if __name__ == "__main__":
    sys.exit(main())
