"""What is staged: each story is a group's life, cause by cause."""

import signal
import time
from collections.abc import Callable
from typing import Any

from tests.pipeline.staged.stage import Stage, application, python_consumer, share_consumer

FAST = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 1_000, "max.poll.interval.ms": 8_000}
COOPERATIVE = {**FAST, "partition.assignment.strategy": "cooperative-sticky"}
CONSUMER = {"group.protocol": "consumer"}
GONE = ("leave", "leave_or_timeout")


def come_and_go(group: Stage) -> None:
    with group.expect("join", "join"):
        first = group.start()
    with group.expect("second join", "join"):
        second = group.start()
    with group.expect("leave", "leave"):
        group.stop(second)
    with group.expect("third join", "join"):
        third = group.start()
    with group.expect("kill", "leave_or_timeout"):
        third.kill()
    with group.expect("new subscription", "subscription_change"):
        first.send_signal(signal.SIGUSR1)
    with group.expect("stuck in processing", *GONE):
        stuck = group.start()
        time.sleep(8)
        stuck.send_signal(signal.SIGUSR2)
    for member in group.members:
        member.kill()
    with group.expect("end", "emptied"):
        pass
    with group.expect("delete", "deleted"):
        group.delete()


def return_under_a_name(group: Stage) -> None:
    with group.expect("two static members join", "join", times=2):
        members = [group.start(**{"group.instance.id": "till-0"})]
        time.sleep(3)
        members.append(group.start(**{"group.instance.id": "till-1"}))
    with group.expect("static return after a kill", "static_rejoin"):
        members[1].kill()
        members[1] = group.start(**{"group.instance.id": "till-1"})
    with group.expect("rolling restart of static members", "static_rejoin", times=2):
        for number, member in enumerate(members):
            group.stop(member)
            members[number] = group.start(**{"group.instance.id": f"till-{number}"})
            time.sleep(2)
    with group.expect("a static member is gone for good", "leave_or_timeout"):
        members[1].kill()


def restart_members(group: Stage) -> None:
    members = []
    with group.expect("three joins", "join", times=3):
        for _ in range(3):
            members.append(group.start())
            time.sleep(4)
    with group.expect("rolling restart of members", "join", times=3):
        for member in members:
            group.stop(member)
            time.sleep(2)
            group.start()
            time.sleep(2)


def restart_the_coordinator(group: Stage) -> None:
    with group.expect("two joins", "join", times=2):
        group.start()
        time.sleep(4)
        group.start()
    with group.expect("coordinator's restart"):
        group.broker.restart()
        time.sleep(6)
    with group.expect("join after the restart", "join"):
        third = group.start()
    with group.expect("leave after the restart", *GONE):
        group.stop(third)
    with group.expect("a member dies while the coordinator is away", "leave_or_timeout"):
        group.broker.stop()
        group.members[1].kill()
        group.broker.start()


def hand_over(group: Stage) -> None:
    with group.expect("join", "join"):
        group.start()
    with group.expect("hand-over", "cooperative_handover"):
        group.start()
    with group.expect("new partitions", "partition_count_change"):
        group.grow()


def consume(group: Stage) -> None:
    with group.expect("join", "join"):
        first = group.start()
    with group.expect("new subscription", "subscription_change"):
        first.send_signal(signal.SIGUSR1)
    with group.expect("new partitions", "partition_count_change"):
        group.grow()
    with group.expect("static join", "join"):
        static = group.start(**{"group.instance.id": "till-1"})
    with group.expect("static return", "static_rejoin"):
        group.stop(static)
        group.start(**{"group.instance.id": "till-1"})
    with group.expect("coordinator's restart"):
        group.broker.restart()
        time.sleep(6)
    with group.expect("leave", *GONE):
        group.stop(first)


def migrate(group: Stage) -> None:
    with group.expect("join", "join"):
        group.start()
    with group.expect("migration", "migrated"):
        group.start(**CONSUMER)


def come_and_go_in_python(group: Stage) -> None:
    with group.expect("join", "join"):
        first = group.start()
    with group.expect("second join", "join"):
        second = group.start()
    with group.expect("leave", *GONE):
        group.stop(second)
    with group.expect("third join", "join"):
        third = group.start()
    with group.expect("kill", "leave_or_timeout"):
        third.kill()
    with group.expect("new subscription", "subscription_change"):
        first.send_signal(signal.SIGUSR1)
    with group.expect("stuck in processing", *GONE):
        stuck = group.start()
        time.sleep(8)
        stuck.send_signal(signal.SIGUSR2)
    for member in group.members:
        member.kill()
    with group.expect("end", "emptied"):
        pass


def share(group: Stage) -> None:
    """Members of a group with epochs, of which no record says how they went."""
    with group.expect("join", "join"):
        group.start()
    with group.expect("second join", "join"):
        second = group.start()
    with group.expect("leave", "leave_or_timeout"):
        group.stop(second)
    with group.expect("third join", "join"):
        third = group.start()
    with group.expect("kill", "leave_or_timeout"):
        third.kill()


STORIES: dict[str, tuple[Callable[[Stage], None], dict[str, Any]]] = {
    "eager": (come_and_go, FAST),
    "static": (return_under_a_name, FAST),
    "rolling": (restart_members, FAST),
    "restart": (restart_the_coordinator, {**FAST, "session.timeout.ms": 20_000, "max.poll.interval.ms": 20_000}),
    "cooperative": (hand_over, COOPERATIVE),
    "consumer": (consume, CONSUMER),
    "moving": (migrate, {}),
    "kafka-python": (come_and_go_in_python, {**FAST, "command": python_consumer}),
    "share": (share, {"command": share_consumer}),
    "streams": (share, {"command": application}),
}
"""By name: what happens, and the settings of the members."""
NEED_CONSUMER_GROUPS = ("consumer", "moving", "share", "streams")
NEED_STREAMS_JARS = ("streams",)
