"""A live group of a foreign client moves to the consumer protocol and back, as `tests/compat/test_consumer_protocol.py` has it."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.compat.consumer_protocol import PARTITIONS, SETTINGS, move_there_and_back
from tests.compat.consumers import Member
from tests.compat.foreign.report import Report
from tests.live import Muster


def run(name: str, command: list[str], report: Report) -> None:
    options = [f"--topic=orders:{PARTITIONS}", *(f"--set={one}" for one in SETTINGS)]
    with (
        TemporaryDirectory() as folder,
        Muster(Path(folder), *options) as muster,
        report.check(f"{name}: a live group moves to the consumer protocol and back, each record worked off once"),
    ):
        where = ("member", muster.kafka, "shop", "orders")
        move_there_and_back(muster, lambda protocol: Member(*where, protocol, "", "3000", command=command))
