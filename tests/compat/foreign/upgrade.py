"""A live group of a foreign client moves to the consumer protocol and back, member by member, under load.

The same story as confluent-kafka's in `tests/compat/test_consumer_protocol.py`, with the same settings of the server:
each record is worked off, and committed, once.
"""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.compat.consumers import Member, wait_until
from tests.compat.foreign.report import Report
from tests.compat.test_consumer_protocol import PARTITIONS, SETTINGS, all_share, all_work, done, group_of, load
from tests.live import Muster

SESSION_MS = "3000"


def run(name: str, command: list[str], report: Report) -> None:
    options = [f"--topic=orders:{PARTITIONS}", *(f"--set={one}" for one in SETTINGS)]
    with (
        TemporaryDirectory() as folder,
        Muster(Path(folder), *options) as muster,
        report.check(f"{name}: a live group moves to the consumer protocol and back, each record worked off once"),
    ):
        move(muster, command)


def move(muster: Muster, command: list[str]) -> None:
    with ExitStack() as stack, load(muster) as sent:
        everyone: list[Member] = []

        def start(protocol: str) -> Member:
            words = ("member", muster.kafka, "shop", "orders", protocol, "", SESSION_MS)
            everyone.append(stack.enter_context(Member(*words, command=command)))
            return everyone[-1]

        members = [start("classic") for _ in range(3)]
        wait_until("three classic members share", all_share(members))
        wait_until("each of them works", all_work(members))
        for protocol in ("consumer", "classic"):
            for at in range(3):
                members[at].leave()
                members[at] = start(protocol)
                wait_until(f"member {at} is back in the {protocol} protocol", all_share(members))
                wait_until("each of them works", all_work(members))
                mixed = {"classic", "consumer"} if at < 2 else {protocol}
                assert {one.protocol for one in group_of(muster).members} == mixed
            assert group_of(muster).type == protocol
        sent.stop()
        wait_until("all is worked off", lambda: len(done(everyone)) == sent.count)
    assert sent.count > 0
    assert set(done(everyone).values()) == {1}, "something was worked off twice"
