"""The sizes of partitions, whether their logs are open or not, and the volume they are on."""

from pathlib import Path

from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from storage.real_files import RealFiles
from tests.dataplane.broker import Broker, batch


def sizes(broker: Broker) -> dict[tuple[str, int], int]:
    (directory,) = broker.ask(DescribeLogDirsRequest(None)).results
    return {
        (topic.name, one.partition_index): one.partition_size
        for topic in directory.topics
        if topic.name == "t"
        for one in topic.partitions
    }


def test_a_log_that_is_not_open_is_measured_and_stays_closed() -> None:
    broker = Broker()
    broker.create("t", partitions=2)
    written = batch("a", "b")
    broker.produce("t", 1, written)
    assert sizes(broker) == {("t", 0): 0, ("t", 1): len(written)}
    broker.plane.close()
    again = Broker(broker.files)
    assert sizes(again) == {("t", 0): 0, ("t", 1): len(written)}
    assert not again.plane.log_bytes(), "no log was opened to be measured"


def test_the_volume_of_a_real_directory_has_a_size(tmp_path: Path) -> None:
    total, usable = RealFiles().space(str(tmp_path))
    assert total >= usable > 0
    assert RealFiles().space(str(tmp_path / "absent")) == (-1, -1)
