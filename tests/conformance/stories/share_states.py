"""The share coordinator: what brokers ask of it about the states of share partitions (KIP-932)."""

from typing import Any

from tests.conformance.requests import UNKNOWN_ID
from tests.conformance.sharing import key_of
from tests.conformance.stage import Answer, Stage
from tests.conformance.story import story


def coordinated(k: Stage, topic: str, group: str = "g") -> None:
    """Wait until the share coordinator serves the share partitions of a topic. Stage setting."""
    keys = [key_of(k.name(group), k.topic_id(topic), index) for index in range(3)]
    k.line("stage").until(
        "the share coordinator",
        "find_coordinator",
        6,
        lambda answer: all(one.error_code == "NONE" for one in answer.coordinators),
        key_type=2,
        coordinator_keys=keys,
    )
    k.line("stage").until(
        "the states",
        "read_share_group_state_summary",
        0,
        lambda answer: answer.results[0].partitions[0].error_code in ("NONE", "UNKNOWN_TOPIC_OR_PARTITION"),
        group_id=k.name(group),
        topics=[{"topic_id": k.topic_id(topic), "partitions": [{"partition": 0, "leader_epoch": -1}]}],
    )


class States:
    """A broker that asks about share partitions of one topic and one group."""

    def __init__(self, k: Stage, partitions: int = 1, group: str = "g") -> None:
        self.k, self.group, self.line = k, k.name(group), k.line("b")
        self.topic = k.topic(partitions=partitions)
        self.topic_id = k.topic_id(self.topic)
        coordinated(k, self.topic, group)

    def call(self, what: str, version: int, *partitions: dict[str, Any], **values: Any) -> Answer:
        topics = [{"topic_id": self.topic_id, "partitions": list(partitions)}]
        return self.line.call(what, version, **{"group_id": self.group, "topics": topics, **values})

    def initialize(self, partition: int = 0, state_epoch: int = 0, start_offset: int = -1) -> Answer:
        one = {"partition": partition, "state_epoch": state_epoch, "start_offset": start_offset}
        return self.call("initialize_share_group_state", 0, one)

    def read(self, partition: int = 0, leader_epoch: int = -1) -> Answer:
        return self.call("read_share_group_state", 0, {"partition": partition, "leader_epoch": leader_epoch})

    def summary(self, partition: int = 0, version: int = 1) -> Answer:
        return self.call("read_share_group_state_summary", version, {"partition": partition, "leader_epoch": -1})

    def delete(self, partition: int = 0) -> Answer:
        return self.call("delete_share_group_state", 0, {"partition": partition})

    def write(self, *batches: tuple[int, int, int, int], partition: int = 0, version: int = 1, **values: Any) -> Answer:
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        known = {
            "partition": partition,
            "state_epoch": -1,
            "leader_epoch": -1,
            "start_offset": -1,
            "state_batches": [dict(zip(names, batch, strict=True)) for batch in batches],
        }
        return self.call("write_share_group_state", version, {**known, **values})


@story("H-101 H-102")
def a_state_is_begun_written_and_read(k: Stage) -> None:
    """What is written is read, in batches that do not overlap."""
    here = States(k)
    here.initialize()
    here.read()
    here.write((0, 9, 2, 1), start_offset=0, delivery_complete_count=10)
    here.write((5, 5, 0, 2), (12, 14, 4, 3))
    here.read()
    here.summary()


@story("H-103")
def a_state_that_was_never_begun(k: Stage) -> None:
    """It is neither read nor written; its summary and its deletion succeed."""
    here = States(k)
    here.read()
    here.write((0, 0, 2, 1))
    here.summary()
    here.summary(version=0)
    here.delete()


@story("H-104")
def older_epochs_are_fenced(k: Stage) -> None:
    """A state epoch of the beginning or the writing, and a leader epoch of the reading or writing; -1 is not compared."""
    here = States(k)
    here.initialize(state_epoch=3)
    here.initialize(state_epoch=2)
    here.read(leader_epoch=5)
    here.read(leader_epoch=4)
    here.write((0, 0, 2, 1), leader_epoch=4, state_epoch=3)
    here.write((0, 0, 2, 1), leader_epoch=5, state_epoch=2)
    here.write((0, 0, 2, 1), leader_epoch=5, state_epoch=3)
    here.write((1, 1, 2, 1), leader_epoch=9, state_epoch=9)
    here.write((2, 2, 2, 1), leader_epoch=5, state_epoch=3)
    here.summary()
    here.read(leader_epoch=6)


@story("H-105")
def a_leader_epoch_below_that_of_a_write(k: Stage) -> None:
    """A write with a greater leader epoch than the reader's does not raise it."""
    here = States(k)
    here.initialize()
    here.write((0, 0, 2, 1), leader_epoch=7)
    here.summary()
    here.read(leader_epoch=3)
    here.summary()


@story("H-106")
def a_state_begins_anew(k: Stage) -> None:
    """The batches are gone, the start offset is another; without an offset the count of deliveries is unknown again."""
    here = States(k)
    here.initialize(start_offset=5)
    here.summary()
    here.write((5, 9, 2, 1), start_offset=5, delivery_complete_count=5)
    here.initialize(state_epoch=1, start_offset=20)
    here.read()
    here.summary()
    here.initialize(state_epoch=2)
    here.read()
    here.summary()


@story("H-107")
def the_start_offset_cuts_batches(k: Stage) -> None:
    """What is below it goes, by a write with batches and by one without; -1 leaves it where it is."""
    here = States(k)
    here.initialize()
    here.write((0, 9, 2, 1), (10, 19, 0, 1), start_offset=0)
    here.write(start_offset=4)
    here.read()
    here.write((20, 29, 4, 5), start_offset=15)
    here.read()
    here.write((30, 39, 2, 1))
    here.read()
    here.write(start_offset=3)
    here.read()


@story("H-102")
def batches_that_overlap_in_every_way(k: Stage) -> None:
    """The greater delivery count holds, then the greater state; neighbours of the same state are one."""
    here = States(k)
    here.initialize()
    here.write((0, 9, 0, 1), start_offset=0)
    for batch in ((0, 9, 2, 1), (20, 29, 0, 2), (22, 25, 2, 1), (22, 25, 4, 3), (18, 30, 0, 2), (31, 33, 0, 2)):
        here.write(batch)
        here.read()
    here.write((40, 49, 2, 1), (45, 60, 2, 2), (43, 47, 4, 1))
    here.read()


@story("H-108")
def strange_batches(k: Stage) -> None:
    """Batches that end before they begin, of no known state, below the start, and twice the same."""
    here = States(k)
    here.initialize(start_offset=10)
    here.write((15, 12, 2, 1))
    here.write((1, 3, 2, 1))
    here.write((11, 11, 9, 1))
    here.write((12, 12, 2, 1), (12, 12, 2, 1))
    here.write((13, 13, 1, 1), delivery_complete_count=-5)
    here.read()
    here.summary()


@story("H-109")
def partitions_that_do_not_exist(k: Stage) -> None:
    """A negative one, one that the topic does not have, and a topic that nobody knows."""
    here = States(k)
    for partition in (-1, 1):
        here.initialize(partition)
        here.read(partition)
        here.write((0, 0, 2, 1), partition=partition)
        here.summary(partition)
        here.delete(partition)
    here.topic_id = UNKNOWN_ID
    here.initialize()
    here.read()
    here.summary()
    here.delete()


@story("H-110")
def requests_that_name_nothing(k: Stage) -> None:
    """No topics, no partitions, no group: an empty response."""
    here = States(k)
    for what in (
        "initialize_share_group_state",
        "read_share_group_state",
        "write_share_group_state",
        "delete_share_group_state",
        "read_share_group_state_summary",
    ):
        here.call(what, 0, topics=[])
        here.call(what, 0)
        here.call(what, 0, {"partition": 0}, group_id="")


@story("H-111")
def many_partitions_in_one_request(k: Stage) -> None:
    """Each is decided by itself."""
    here = States(k, 3)
    begin = [{"partition": index, "state_epoch": 0, "start_offset": index} for index in (0, 1, 5)]
    here.call("initialize_share_group_state", 0, *begin)
    here.call("read_share_group_state_summary", 1, *({"partition": index, "leader_epoch": 0} for index in (0, 1, 2)))
    here.call("read_share_group_state", 0, *({"partition": index, "leader_epoch": -1} for index in (0, 1, 2)))
    here.call("delete_share_group_state", 0, *({"partition": index} for index in (0, 1, 2)))
    here.call("read_share_group_state_summary", 1, *({"partition": index, "leader_epoch": 0} for index in (0, 1, 2)))


@story("H-112")
def a_deleted_state_is_forgotten(k: Stage) -> None:
    """Epochs are forgotten as well; a state that begins again begins with the first ones."""
    here = States(k)
    here.initialize(state_epoch=5, start_offset=3)
    here.read(leader_epoch=8)
    here.delete()
    here.summary()
    here.read()
    here.initialize(state_epoch=0)
    here.read(leader_epoch=1)


@story("H-113")
def a_write_of_version_0_knows_no_count(k: Stage) -> None:
    """The count of deliveries is unknown after it."""
    here = States(k)
    here.initialize(start_offset=0)
    here.write((0, 4, 2, 1), delivery_complete_count=5)
    here.summary()
    here.write((5, 9, 2, 1), version=0)
    here.summary()
    here.summary(version=0)


@story("H-114")
def the_states_of_a_deleted_topic(k: Stage) -> None:
    """They are unknown while there is no such topic."""
    here = States(k)
    here.initialize(start_offset=4)
    k.delete_topic(here.topic)
    k.pause(500)
    here.read()
    here.write((4, 4, 2, 1))
    here.summary()
    here.delete()
    here.initialize()


@story("H-115 F-007")
def coordinators_of_share_partitions_are_found_by_name(k: Stage) -> None:
    """The name is group, topic id and partition; what is none is refused. A group may have colons."""
    here = States(k)
    good = key_of(here.group, UNKNOWN_ID)
    for keys in ([good], [key_of(f"a:b:{here.group}", UNKNOWN_ID, 7), key_of("x", UNKNOWN_ID, -3)], []):
        k.line("a").call("find_coordinator", 6, coordinator_keys=keys, key_type=2)
    bad = [
        "",
        "g",
        f"{here.group}:0",
        good.rpartition(":")[0],
        f"{good}:",
        f"{good}x",
        f":{good.partition(':')[2]}",
        f" :{good.partition(':')[2]}",
        f"{here.group}:notbase64:0",
        f"{good}99999999999",
    ]
    for key in bad:
        k.line("a").call("find_coordinator", 6, coordinator_keys=[key], key_type=2)
