"""A command that follows a group's rebalances in a process of its own, whatever happens to the broker meanwhile."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.live import wait_until

PATIENCE_S = 60


def make_topic_of_groups(address: str) -> None:
    """Ask for a group's offsets, upon which the cluster makes `__consumer_offsets`."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "first", "log_level": 0})

    def has_offsets() -> bool:
        try:
            consumer.committed([TopicPartition("none", 0)], timeout=60)
        except KafkaException:
            return False  # the coordinator has just been elected
        return True

    wait_until("there is a topic of groups", has_offsets, PATIENCE_S)
    consumer.close()


class Follower:
    """`muster events GROUP --follow`, or `why`, which says the same."""

    def __init__(self, address: str, group: str, command: str = "events") -> None:
        words = [command, group, "--bootstrap-server", address, "--follow", "--json", "--since", "beginning"]
        self._printed = tempfile.NamedTemporaryFile()  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen([sys.executable, "-m", "coordinator", *words], stdout=self._printed)

    def await_events(self, number: int) -> None:
        """Wait until so many rebalances are printed, none of them twice, and no more."""
        wait_until(
            f"{number} rebalances are printed, and not {len(self.offsets())}",
            lambda: len(self.offsets()) >= number,
            PATIENCE_S,
        )
        found = self.offsets()
        assert self.poll() is None, "the command has ended"
        assert len(found) == len(set(found)) == number, found

    def offsets(self) -> list[int]:
        """Return the offsets of the records that were told of."""
        with Path(self._printed.name).open() as printed:
            return [json.loads(line)["number"] for line in printed if line.endswith("\n")]

    def poll(self) -> int | None:
        """Return the exit code of the command; None while it runs."""
        return self._process.poll()

    def close(self) -> None:
        """End the command."""
        self._process.kill()
        self._process.wait()
        self._printed.close()
