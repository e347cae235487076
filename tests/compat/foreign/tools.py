"""Kafka's own ConsumerGroupCommand, run against Kafka and against the server: both must print the same.

Both are given the same topics, records and groups, and the same commands in the same order. What cannot be equal is
put in its place by a name: member ids, and the broker's address and number.
"""

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from coordinator.client import Client
from tests.cli.command import classic_member, consumer_member, records
from tests.compat.foreign.report import Report
from tests.conformance import kafka
from tests.live import Muster
from tests.requests import alter_configs

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOOL_SECONDS = 90
GROUP = 32  # as a kind of resource that has configs
QUIET = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Dlog4j2.level=OFF", "-Dlog4j2.StatusLogger.level=OFF")
SETTINGS = {"group.consumer.session.timeout.ms": "60000", "group.initial.rebalance.delay.ms": "0"}
COMMANDS = tuple(
    line.split()
    for line in """
    --list
    --list --state
    --list --type
    --list --state Stable --type classic
    --describe --group shop
    --describe --group shop --verbose
    --describe --group shop --members
    --describe --group shop --members --verbose
    --describe --group shop --state
    --describe --group modern
    --describe --group modern --members --verbose
    --describe --group modern --state --verbose
    --describe --group done --offsets
    --describe --group done --members
    --describe --group nobody
    --describe --all-groups --state
    --reset-offsets --group done --topic orders --to-earliest --dry-run
    --reset-offsets --group done --topic orders --to-earliest --execute
    --describe --group done
    --reset-offsets --group done --topic orders:0,1 --shift-by 2 --execute
    --reset-offsets --group done --all-topics --to-datetime 1970-01-01T03:30:00.000 --execute
    --reset-offsets --group done --all-topics --to-latest --execute --export
    --reset-offsets --group shop --topic orders --to-earliest --execute
    --reset-offsets --group fresh --topic orders --to-offset 3 --execute
    --describe --group fresh
    --delete-offsets --group done --topic orders:0
    --delete-offsets --group done --topic absent
    --delete-offsets --group shop --topic orders
    --delete-offsets --group nobody --topic orders
    --describe --group done
    --delete --group done --group fresh
    --delete --group shop
    --delete --group nobody
    --list
    """.strip().splitlines()
)


SHARE_TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
SHARE_COMMANDS = tuple(
    line.split()
    for line in """
    --list
    --list --state
    --list --state Empty
    --describe --group queue
    --describe --group queue --offsets --verbose
    --describe --group queue --members
    --describe --group queue --state
    --describe --group nobody
    --describe --all-groups --state
    --reset-offsets --group queue --topic jobs --to-earliest --dry-run
    --reset-offsets --group queue --topic jobs --to-earliest --execute
    --describe --group queue
    --reset-offsets --group queue --topic jobs --to-latest --execute
    --describe --group queue
    --reset-offsets --group fresh --topic jobs --to-earliest --execute
    --describe --group fresh
    --delete-offsets --group fresh --topic jobs
    --delete-offsets --group fresh --topic absent
    --delete --group queue --group fresh
    --delete --group nobody
    --list
    """.strip().splitlines()
)
CONSUMED = ("--topic", "jobs", "--group", "queue", "--max-messages", "10", "--timeout-ms", "20000")


def run(report: Report) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        kafka.running({**SETTINGS, "num.partitions": "1"}) as port,
        Muster(Path(folder), *(f"--set={name}={value}" for name, value in SETTINGS.items())) as muster,
    ):
        theirs, ours = f"127.0.0.1:{port}", muster.kafka
        with prepared(theirs), prepared(ours):
            for words in COMMANDS:
                with report.check(f"kafka-consumer-groups {' '.join(words)}"):
                    expected, printed = said(theirs, words), said(ours, words)
                    assert printed == expected, difference(printed, expected)
        with Client.to(theirs) as their, Client.to(ours) as our:
            for client in (their, our):
                client.ask(alter_configs(GROUP, "queue", {"share.auto.offset.reset": "earliest"}))
        for bootstrap in (theirs, ours):
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.create_topics([NewTopic("jobs", 1, 1, config={"retention.ms": "-1"})])["jobs"].result(30)
            records(bootstrap, "jobs", {0: 10})
        with report.check("kafka-console-share-consumer reads the same records"):
            expected, printed = said(theirs, CONSUMED, SHARE_CONSUMER), said(ours, CONSUMED, SHARE_CONSUMER)
            assert printed == expected, difference(printed, expected)
            assert len(printed) > 10, "ten records, and how many there were"
        for words in SHARE_COMMANDS:
            with report.check(f"kafka-share-groups {' '.join(words)}"):
                expected, printed = said(theirs, words, SHARE_TOOL), said(ours, words, SHARE_TOOL)
                assert printed == expected, difference(printed, expected)


@contextmanager
def prepared(bootstrap: str) -> Iterator[None]:
    """Topics with records; a group with offsets only, a classic one with a static member, one of the new protocol."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    kept = {"retention.ms": "-1"}  # the records are of 1970
    topics = [NewTopic("orders", 3, 1, config=kept), NewTopic("payments", 1, 1)]
    for made in admin.create_topics(topics).values():
        made.result(30)
    records(bootstrap, "orders", {0: 10, 1: 4})
    # The first question makes Kafka create its topic of offsets, and takes as long as that.
    said(bootstrap, ["--reset-offsets", "--group", "done", "--topic", "orders", "--to-offset", "1", "--execute"])
    said(bootstrap, ["--reset-offsets", "--group", "shop", "--topic", "orders:0", "--to-offset", "3", "--execute"])
    with Client.to(bootstrap, client_id="app") as client:
        classic_member(client, "shop", {"orders": (0, 1), "payments": (0,)}, instance="till-1")
        consumer_member(client, "modern", "member-1")
        yield


def said(bootstrap: str, words: list[str], tool: str = TOOL) -> list[str]:
    """What a tool prints, normalised: a sorted list of lines, blanks squeezed."""
    command = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *QUIET, "-cp", f"{kafka.jars()}/*", tool]
    done = subprocess.run(
        [*command, "--bootstrap-server", bootstrap, *words], capture_output=True, text=True, timeout=TOOL_SECONDS
    )
    lines = [normal(line, bootstrap) for line in (done.stdout + done.stderr).splitlines()]
    return sorted(line for line in lines if line and not _is_noise(line))


def difference(printed: list[str], expected: list[str]) -> str:
    ours, theirs = Counter(printed), Counter(expected)
    return f"only here {sorted((ours - theirs).elements())}, only against Kafka {sorted((theirs - ours).elements())}"


def normal(line: str, bootstrap: str) -> str:
    named = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", line)
    named = re.sub(rf"{re.escape(bootstrap)}\s+\(\d+\)", "BROKER", named)
    return " ".join(named.split())


def _is_noise(line: str) -> bool:
    """Lines of a stack, and what the logger says of itself: they name classes of the tool."""
    return line.startswith("at ") or "slf4j" in line.lower() or "StatusLogger" in line
