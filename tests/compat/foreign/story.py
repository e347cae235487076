"""What is checked of every client, and by what the server counts: one story a client and group protocol."""

import json
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from coordinator.client import Client
from protocol.messages.list_groups import ListGroupsRequest
from tests.compat.consumers import Member, read, wait_for_share, wait_until
from tests.compat.foreign.clients import Foreign
from tests.compat.foreign.report import Report
from tests.live import Muster
from tests.requests import alter_configs, fetch_offsets

PARTITIONS = 4
GROWN = 6
GROUP = 32  # as a kind of resource that has configs
SESSION_MS = 6_000
STATIC_SESSION_MS = 30_000  # long enough for a JVM to come back
QUIET_SECONDS = 20.0
JOINS_MAX = 2  # a member, in the quiet seconds
FETCHES_PER_SECOND_MAX = 2.5  # a member: each waits 500 ms
PROGRAM_SECONDS = 90.0
COPIED = 200
WARNINGS = 4  # of syslog: librdkafka tells of each of its threads' ends otherwise
SETTINGS = (
    f"group.consumer.min.session.timeout.ms={SESSION_MS}",
    f"group.consumer.session.timeout.ms={SESSION_MS}",
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=500",
)


class Story:
    """One client in one protocol, with a server of its own."""

    def __init__(self, client: Foreign, command: list[str], protocol: str, report: Report) -> None:
        self.client = client
        self.command = command
        self.protocol = protocol
        self.report = report
        self.muster: Muster

    def run(self) -> None:
        names = ("orders", "quiet", "static", "in", "out", *(f"codec-{codec}" for codec in self.client.codecs))
        topics = [f"--topic={name}:{PARTITIONS}" for name in names]
        settings = [f"--set={one}" for one in SETTINGS]
        with tempfile.TemporaryDirectory() as folder, Muster(Path(folder), *topics, *settings) as self.muster:
            self.compressions()
            self.life_of_a_group()
            self.quiet()
            if self.protocol in self.client.statics:
                self.static_restart()
            self.admin()
            if self.protocol in self.client.copies:
                self.copy()

    def check(self, what: str) -> AbstractContextManager[None]:
        return self.report.check(f"{self.client.name} {self.protocol}: {what}")

    # --- the steps

    def compressions(self) -> None:
        for codec in self.client.codecs:
            topic = f"codec-{codec}"
            with self.check(f"records in {codec} are written and read"), self.member(topic, topic) as reader:
                self.produce(topic, codec, 40)
                wait_until("all are read", lambda: len(reader.got) >= 40)
                assert {value for _, _, value in reader.got} == {f"{codec}-{n}" for n in range(40)}

    def life_of_a_group(self) -> None:
        with ExitStack() as stack:
            members = [stack.enter_context(self.member("shop", "orders")) for _ in range(3)]
            a, b, c = members
            with self.check("three members share four partitions"):
                wait_for_share(members, PARTITIONS)
                assert group_type(self.muster.kafka, "shop") == self.protocol
            with self.check("each record once, and all is committed"):
                self.produce("orders", "none", 200)
                wait_until("all is consumed", lambda: len(seen(members)) >= 200)
                wait_until("all is committed", lambda: self.committed("shop") == [50] * PARTITIONS)
                assert not (again := twice(members)), f"read again: {again}"
            with self.check("one leaves, the others take over"):
                c.leave()
                wait_for_share((a, b), PARTITIONS)
                time.sleep(self.client.settles_in_seconds)
                self.produce("orders", "none", 40)
                wait_until("all is committed", lambda: self.committed("shop") == [60] * PARTITIONS)
            with self.check("the server is killed and comes back, they go on and read nothing twice"):
                self.muster.kill()
                self.muster.start()
                self.produce("orders", "gzip", 200)
                wait_until("all is consumed", lambda: len(seen(members)) >= 440)
                assert not (again := twice(members)), f"read again: {again}"
            with self.check("one is killed, the other takes over when its session ends"):
                b.kill()
                wait_for_share((a,), PARTITIONS)
            if self.protocol in self.client.notices_growth:
                with self.check("the topic grows, and its new partitions are assigned"):
                    self.grow("orders")
                    wait_for_share((a,), GROWN)

    def quiet(self) -> None:
        with ExitStack() as stack:
            members = [stack.enter_context(self.member("calm", "quiet")) for _ in range(3)]
            with self.check(f"at most {JOINS_MAX} joins a member in {QUIET_SECONDS:.0f} quiet seconds"):
                wait_for_share(members, PARTITIONS)
                epoch = self.muster.metric("muster_group_generation", group="calm")
                joins, fetches = self.requests("JoinGroup"), self.requests("Fetch")
                time.sleep(QUIET_SECONDS)
                rate = (self.requests("Fetch") - fetches) / QUIET_SECONDS / len(members)
                assert self.requests("JoinGroup") - joins <= JOINS_MAX * len(members)
                assert 0 < rate <= FETCHES_PER_SECOND_MAX, f"{rate:.1f} fetches a second and member"
                if self.protocol == "consumer":
                    assert self.muster.metric("muster_group_generation", group="calm") == epoch, "nothing moved it"
            for one in members:
                one.leave()

    def static_restart(self) -> None:
        if self.protocol == "consumer":  # whose members cannot ask for a session themselves
            session = {"consumer.session.timeout.ms": str(STATIC_SESSION_MS)}
            with Client.to(self.muster.kafka) as client:
                (answer,) = client.ask(alter_configs(GROUP, "tills", session)).responses
            assert not answer.error_code, answer.error_message
        with ExitStack() as stack:
            first = stack.enter_context(self.member("tills", "static", "till-1", STATIC_SESSION_MS))
            other = stack.enter_context(self.member("tills", "static", "till-2", STATIC_SESSION_MS))
            with self.check("a static member comes back to its partitions, and the other keeps its own"):
                wait_for_share((first, other), PARTITIONS)
                mine, theirs = first.assigned, other.assigned
                generation = self.muster.metric("muster_group_generation", group="tills")
                if self.protocol == "consumer":
                    first.leave()  # for a while (epoch -2): a second one with its name would be refused before that
                else:
                    first.kill()
                again = stack.enter_context(self.member("tills", "static", "till-1", STATIC_SESSION_MS))
                wait_until("it has what it had", lambda: again.assigned == mine)
                assert other.assigned == theirs
                assert self.muster.metric("muster_group_generation", group="tills") == generation, "no rebalance"

    def admin(self) -> None:
        with self.check("an administrator lists, describes, resets and deletes a group"):
            with self.member("past", "in") as member:
                self.produce("in", "none", COPIED)
                wait_until("something is committed", lambda: sum(self.committed("past", "in")) >= COPIED)
                member.leave()
            told = json.loads(self.program("admin", self.muster.kafka, "past", "in"))
            state = told.pop("state").replace("_", "").lower()
            assert state == ("empty" if self.protocol in self.client.describes else "dead"), state
            assert told == dict(self.client.admin), f"{told} instead of {dict(self.client.admin)}"

    def copy(self) -> None:
        with self.check("records and offsets in transactions: each is copied once, what is aborted is not read"):
            self.program("copy", self.muster.kafka, "copier", "in", "out", str(COPIED), self.protocol)
            found = Counter(read(self.muster.kafka, "out", COPIED, partitions=range(PARTITIONS)))
            assert found == Counter(f"none-{n}" for n in range(COPIED))
            assert sum(self.committed("copier", "in")) == COPIED

    # --- what the steps are made of

    def member(self, group: str, topic: str, instance: str = "", session_ms: int = SESSION_MS) -> Member:
        words = ("member", self.muster.kafka, group, topic, self.protocol, instance, str(session_ms))
        return Member(*words, command=self.command)

    def program(self, *words: str) -> str:
        done = subprocess.run([*self.command, *words], check=True, timeout=PROGRAM_SECONDS, capture_output=True)
        return done.stdout.decode().strip().splitlines()[-1] if done.stdout.strip() else ""

    def produce(self, topic: str, codec: str, count: int) -> None:
        self.program("produce", self.muster.kafka, topic, codec, str(count))

    def grow(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.muster.kafka, "log_level": WARNINGS})
        admin.create_partitions([NewPartitions(topic, GROWN)])[topic].result(20)

    def requests(self, api: str) -> float:
        return self.muster.metric("muster_requests_total", api=api)

    def committed(self, group: str, topic: str = "orders") -> list[int]:
        return committed_offsets(self.muster.kafka, group, topic)


def committed_offsets(bootstrap: str, group: str, topic: str) -> list[int]:
    """The group's offsets in a topic, by partition, as the server answers them."""
    with Client.to(bootstrap) as client:
        answer = client.ask(fetch_offsets(group), up_to=9)
    offsets = {
        one.partition_index: one.committed_offset
        for found in answer.groups[0].topics
        for one in found.partitions
        if found.name == topic
    }
    return [offsets[partition] for partition in sorted(offsets)]


def group_type(bootstrap: str, group: str) -> str:
    """`classic` or `consumer`, as ListGroups answers; an empty string when there is no such group."""
    with Client.to(bootstrap) as client:
        groups = client.ask(ListGroupsRequest(), version=5).groups
    return "".join(one.group_type for one in groups if one.group_id == group)


def seen(members: list[Member]) -> Counter[str]:
    return Counter(f"{partition}@{offset}" for member in members for partition, offset, _ in member.got)


def twice(members: list[Member]) -> dict[str, int]:
    """What was consumed more than once, as partition@offset, and how often."""
    return {one: count for one, count in seen(members).items() if count > 1}
