"""Java's KafkaShareConsumer: members of a share group that accept, release, reject and renew; one is killed, the
server is.
"""

import json
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator.client import Client
from protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from protocol.messages.share_group_describe import ShareGroupDescribeRequest
from tests.compat.consumers import produce
from tests.compat.foreign.clients import PROGRAMS, run_tool
from tests.compat.foreign.report import Report
from tests.conformance import kafka
from tests.live import Muster, wait_until
from tests.requests import alter_configs

PARTITIONS = 1  # each member has it: with more, members of a group may have one each
GROUP = 32  # as a kind of resource that has configs
LOCK_MS = 1_500
RECORDS = 200
LIMIT = 5  # deliveries
SETTINGS = (
    "group.share.min.record.lock.duration.ms=1000",
    "group.share.min.heartbeat.interval.ms=200",
    "group.share.heartbeat.interval.ms=200",
    "group.share.assignment.interval.ms=0",
)
GROUPS = ("all", "both", "mixed", "poison", "killed", "held", "renewed", "restart")
WAIT_SECONDS = 60.0


def install(cache: Path) -> list[str]:
    """Compile the program, and return the command."""
    classes = cache / "java-sharing"
    classes.mkdir(parents=True, exist_ok=True)
    jars = f"{kafka.jars()}/*"
    run_tool(["javac", "-cp", jars, "-d", str(classes), str(PROGRAMS / "java" / "Sharing.java")], classes)
    return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128M", "-cp", f"{classes}:{jars}", "Sharing"]


class Sharer:
    """A process that is a member of a share group, and what it has got so far."""

    def __init__(self, command: list[str], *words: str) -> None:
        self.got: list[tuple[str, int]] = []  # value and delivery count
        self.errors: list[str] = []
        self.renewed = 0
        self._process = subprocess.Popen(
            [*command, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Close the consumer as a user would."""
        assert self._process.stdin is not None, "opened as a pipe"
        self._process.stdin.close()
        self._process.wait(60)

    def kill(self) -> None:
        """It says farewell to nobody."""
        self._process.kill()
        self._process.wait(30)
        self._reader.join(5)

    def _listen(self) -> None:
        assert self._process.stdout is not None, "opened as a pipe"
        for line in self._process.stdout:
            said = json.loads(line)
            if "got" in said:
                self.got.append((said["got"][2], said["got"][3]))
            self.renewed += said.get("renewed", 0)
            self.errors += [said["error"]] if "error" in said else []

    @property
    def values(self) -> list[str]:
        return [value for value, _ in self.got]


class Sharing:
    """The checks, on a server of their own."""

    def __init__(self, command: list[str], muster: Muster, report: Report) -> None:
        self.command, self.muster, self.report = command, muster, report

    @contextmanager
    def member(self, group: str, mode: str) -> Iterator[Sharer]:
        one = Sharer(self.command, self.muster.kafka, group, group, mode)
        try:
            yield one
        finally:
            one.kill()

    def write(self, topic: str, *values: str) -> None:
        produce("confluent-kafka", self.muster.kafka, topic, PARTITIONS, values)

    def lag(self, group: str) -> int:
        """How many records of its topic the group has not done with."""
        with Client.to(self.muster.kafka) as client:
            asked = DescribeShareGroupOffsetsRequest((DescribeShareGroupOffsetsRequestGroup(group, None),))
            (found,) = client.ask(asked).groups
        return sum(one.lag for topic in found.topics for one in topic.partitions)

    def configure(self, group: str, **values: str) -> None:
        with Client.to(self.muster.kafka) as client:
            named = {name.replace("_", "."): value for name, value in values.items()}
            (answer,) = client.ask(alter_configs(GROUP, group, named)).responses
        assert not answer.error_code, answer.error_message

    # --- the checks

    def run(self) -> None:
        for group in GROUPS:
            self.configure(group, share_auto_offset_reset="earliest", share_record_lock_duration_ms="30000")
        for check in (
            self.implicit, self.two_members, self.verdicts, self.poison, self.killed, self.held, self.renewed,
            self.restarted,
        ):  # fmt: skip
            with self.report.check(f"share consumer of Java {kafka.VERSION}: {(check.__doc__ or '').rstrip('.')}"):
                check()

    def implicit(self) -> None:
        """each record once, accepted by the next poll."""
        self.write("all", *(f"v{number}" for number in range(RECORDS)))
        with self.member("all", "implicit") as a:
            wait_until("all is read", lambda: len(a.got) >= RECORDS, WAIT_SECONDS)
            wait_until("all is accepted", lambda: self.lag("all") == 0, WAIT_SECONDS)
        assert Counter(a.got) == Counter((f"v{number}", 1) for number in range(RECORDS))
        assert not a.errors, a.errors

    def two_members(self) -> None:
        """two members, each record at one of them."""
        with self.member("both", "explicit") as a, self.member("both", "implicit") as b:
            for round_number in range(10):
                self.write("both", *(f"{round_number}-{number}" for number in range(20)))
                wait_until("all is read", lambda: len(a.got) + len(b.got) >= 20 * (round_number + 1), WAIT_SECONDS)  # noqa: B023 - called in this round
            wait_until("all is accepted", lambda: self.lag("both") == 0, WAIT_SECONDS)
            found = Counter(a.values + b.values)
            assert len(found) == RECORDS, "each is read"
            assert set(found.values()) == {1}, "and none twice"
            assert a.got, "one of them reads"
            assert not a.errors + b.errors, a.errors + b.errors

    def verdicts(self) -> None:
        """what is released comes again, what is rejected does not."""
        values = [f"{kind}-{number}" for number in range(10) for kind in ("fine", "retry", "reject")]
        self.write("mixed", *values)
        with self.member("mixed", "explicit") as a:
            wait_until("all is done", lambda: len(a.got) >= 40 and self.lag("mixed") == 0, WAIT_SECONDS)
        counts = Counter(a.values)
        assert {counts[value] for value in values if value.startswith("retry")} == {2}
        assert {counts[value] for value in values if not value.startswith("retry")} == {1}

    def poison(self) -> None:
        """a record that fails each time is archived after the last delivery."""
        self.write("poison", "fine-1", "poison", "fine-2")
        with self.member("poison", "explicit") as a:
            wait_until("it is archived", lambda: self.lag("poison") == 0 and len(a.got) >= 3, WAIT_SECONDS)
            self.write("poison", "fine-3")
            wait_until("the group goes on", lambda: "fine-3" in a.values, WAIT_SECONDS)
        assert [count for value, count in a.got if value == "poison"] == list(range(1, LIMIT + 1))
        assert Counter(a.values)["fine-1"] == 1

    def killed(self) -> None:
        """one that is killed gives its records back at once."""
        self.write("killed", *(f"v{number}" for number in range(20)))
        with self.member("killed", "hold") as a:
            wait_until("it has all", lambda: len(a.got) >= 20, WAIT_SECONDS)
            with self.member("killed", "explicit") as b:
                wait_until("the other one is a member", lambda: self.members("killed") == 2, WAIT_SECONDS)
                a.kill()
                wait_until("the other one has all", lambda: len(b.got) >= 20, LOCK_MS / 1000 + 10)
                wait_until("all is accepted", lambda: self.lag("killed") == 0, WAIT_SECONDS)
        assert Counter(b.got) == Counter((f"v{number}", 2) for number in range(20))

    def held(self) -> None:
        """one that holds its records loses them when their lock ends."""
        self.configure("held", share_auto_offset_reset="earliest", share_record_lock_duration_ms=str(LOCK_MS))
        self.write("held", *(f"v{number}" for number in range(20)))
        with self.member("held", "hold") as a:
            wait_until("it has all", lambda: len(a.got) >= 20, WAIT_SECONDS)
            with self.member("held", "explicit") as b:
                wait_until("the other one has all", lambda: len(b.got) >= 20, WAIT_SECONDS)
                wait_until("all is accepted", lambda: self.lag("held") == 0, WAIT_SECONDS)
        assert {value for value, _ in b.got} == {f"v{number}" for number in range(20)}
        assert min(count for _, count in b.got) >= 2

    def renewed(self) -> None:
        """locks that are renewed keep records from others."""
        self.configure("renewed", share_auto_offset_reset="earliest", share_record_lock_duration_ms=str(LOCK_MS))
        self.write("renewed", *(f"v{number}" for number in range(6)))
        with self.member("renewed", "renew") as a:
            wait_until("it has all", lambda: len(a.got) >= 6, WAIT_SECONDS)
            with self.member("renewed", "explicit") as b:
                wait_until("all is accepted", lambda: self.lag("renewed") == 0, WAIT_SECONDS)
                assert not b.got, b.got
        assert not a.errors, a.errors

    def restarted(self) -> None:
        """the server is killed and comes back: what was accepted is not delivered again."""
        with self.member("restart", "explicit") as a:
            self.write("restart", *(f"v{number}" for number in range(50)))
            wait_until("all is accepted", lambda: len(a.got) >= 50 and self.lag("restart") == 0, WAIT_SECONDS)
            self.muster.kill()
            self.muster.start()
            self.write("restart", *(f"w{number}" for number in range(50)))
            wait_until("all is accepted", lambda: len(a.got) >= 100 and self.lag("restart") == 0, WAIT_SECONDS)
        assert set(Counter(a.values).values()) == {1}

    def members(self, group: str) -> int:
        with Client.to(self.muster.kafka) as client:
            (found,) = client.ask(ShareGroupDescribeRequest((group,))).groups
        return len(found.members)


def run(cache: Path, report: Report) -> None:
    command: list[str] = []
    with report.check(f"share consumer of Java {kafka.VERSION}: installed"):
        command = install(cache)
    if command:
        options = [f"--topic={group}:{PARTITIONS}" for group in GROUPS] + [f"--set={one}" for one in SETTINGS]
        with tempfile.TemporaryDirectory() as home, Muster(Path(home), *options) as muster:
            Sharing(command, muster, report).run()
