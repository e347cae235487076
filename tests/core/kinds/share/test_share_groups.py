"""Share groups at random: what members are told, and what the group remembers of its states, whatever is lost meanwhile.

The share coordinator answers, refuses, or is never heard of again; members come, change their minds, repeat a heartbeat whose
response they have not got, and go; topics grow and vanish; an administrator forgets states.
"""

from collections.abc import Callable, Collection
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.core import records
from coordinator.core.events import Cause, Event
from coordinator.core.kinds.modern.topics import metadata_hash
from coordinator.core.kinds.share.group import ShareGroup
from coordinator.core.limits import Limits
from coordinator.core.moves import LoseMembers
from coordinator.core.result import (
    BeginShareStates,
    EndAllShareStates,
    EndShareStates,
    NoteBegunStates,
    NoteEndedStates,
    NoteFailedStates,
    Result,
)
from coordinator.core.shard import Shard
from coordinator.core.topics import Topic, Topics
from coordinator.core.verbs import Forget, Rebalance, RemoveMember, SetTarget
from protocol.errors import ErrorCode
from protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.core import durable
from tests.core.driver import ShardDriver

GROUP, NAMES = "queue", ("a", "b", "c")
LIMITS = Limits(group_share_assignment_interval_ms=5_000)
SESSION_MS = LIMITS.group_share_session_timeout_ms
RETRY_MS = LIMITS.group_share_initialize_retry_interval_ms
Asked = dict[bytes, set[int]]


def id_of(name: str) -> str:
    """The member id of a name."""
    return name.ljust(22, "-")


class ShareDriver(ShardDriver):
    """A shard whose share coordinator is the test."""

    def __init__(self) -> None:
        super().__init__(LIMITS, Topics([Topic(name, name.encode() * 16, 3) for name in NAMES]))
        self.events: list[Event] = []
        self.beats: dict[str, int] = {}  # when each member was heard of last
        self.asked: list[tuple[int, Asked]] = []  # when, and which partitions
        self.unanswered: dict[tuple[bytes, int], int] = {}  # when a partition was asked for that nothing was heard of
        self.ending: list[frozenset[bytes]] = []
        self.ended: dict[bytes, tuple[int, ...]] = {}  # the partitions whose states were to end latest
        self.begun: list[dict[bytes, dict[int, int]]] = []  # what was asked to begin, at which offsets

    def take(self, result: Result[Any]) -> None:
        super().take(result)
        self.events += result.events
        for effect in result.effects:
            if isinstance(effect, BeginShareStates):
                self.begun.append({topic_id: dict(some) for topic_id, some in effect.offsets.items()})
                topics: Asked = {}
                for key in [(topic_id, index) for topic_id, some in effect.offsets.items() for index in some]:
                    topics.setdefault(key[0], set()).add(key[1])
                    asked_ms = self.unanswered.get(key)
                    is_altered = effect.response is not None
                    assert is_altered or asked_ms is None or self.now_ms - asked_ms >= RETRY_MS, "not twice in a row"
                    self.unanswered[key] = self.now_ms
                self.asked.append((self.now_ms, topics))
            elif isinstance(effect, EndShareStates):
                self.ending.append(frozenset(effect.topics))
                self.ended = dict(effect.topics)

    @property
    def group(self) -> ShareGroup:
        found: ShareGroup = self.shard.groups[GROUP]
        return found

    def answer(self, how: type[NoteBegunStates | NoteFailedStates], topic_id: bytes, partitions: set[int]) -> None:
        """Say what has become of states that were asked for."""
        for partition in partitions:
            self.unanswered.pop((topic_id, partition), None)
        is_begun = GROUP in self.shard.groups and topic_id in self.group.initializing
        nothing = GROUP in self.shard.groups and not self.group.initializing
        result = self.handle(how(GROUP, {topic_id: tuple(sorted(partitions))}), self.call(0))
        assert not (nothing and result.records), "what is not being begun has not failed"
        if how is NoteBegunStates:
            assert bool(result.records) == is_begun, "what was deleted meanwhile has not begun"

    def note_ended(self, topics: frozenset[bytes]) -> None:
        """Say that the states of some topics are gone."""
        before = dict(self.group.deleting)
        self.handle(NoteEndedStates(GROUP, topics), self.call(0))
        assert self.group.deleting == {one: name for one, name in before.items() if one not in topics}

    def end_states(self, names: Collection[str]) -> None:
        """Let an administrator forget the states of topics: whatever may have states of them is asked to end these."""
        there = {topic_id: one.name for topic_id, one in self.group.initialized.items()} | dict(self.group.deleting)
        expected = frozenset(topic_id for topic_id, name in there.items() if name in names)
        known = {topic_id: set(one.partitions) for topic_id, one in self.group.initialized.items()}
        for topic_id in known:
            known[topic_id].update(getattr(self.group.initializing.get(topic_id), "partitions", ()))
        self.ending.clear()
        self.ended = {}
        topics = tuple(DeleteShareGroupOffsetsRequestTopic(name) for name in names)
        self.handle(DeleteShareGroupOffsetsRequest(GROUP, topics), self.call(0))
        assert self.ending == ([expected] if expected else []), "also where an earlier answer was lost"
        assert expected <= self.group.deleting.keys()
        assert not expected & {*self.group.initialized, *self.group.initializing}
        assert all(set(self.ended[topic_id]) == known[topic_id] for topic_id in expected & known.keys())
        self.unanswered = {key: at_ms for key, at_ms in self.unanswered.items() if key[0] not in expected}

    def beat(self, member: str, epoch: int, names: tuple[str, ...] | None = None) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(GROUP, id_of(member), epoch, None, names)
        before = None if GROUP not in self.shard.groups else self.group.members.get(id_of(member))
        result = self.handle(request, self.call(1))
        answer: ShareGroupHeartbeatResponse = result.response
        if epoch >= 0 and not answer.error_code:
            self.beats[id_of(member)] = self.now_ms
            assigned = self.group.members[id_of(member)].assigned
            is_told = epoch == 0 or names is not None or before is None or assigned != before.assigned
            assert (answer.assignment is not None) == is_told
            told = () if answer.assignment is None else answer.assignment.topic_partitions
            assert {one.topic_id: one.partitions for one in told} == (assigned if is_told else {})
        if any(isinstance(effect, BeginShareStates) for effect in result.effects):
            assert not self.asked[-1][1].keys() & self.group.deleting.keys(), "what is begun again is not forgotten"
        return answer

    def set_topics(self, topics: Topics) -> None:
        self.topics = topics
        self.shard.set_topics(topics)

    def forget(self, name: str, gone: bytes) -> None:
        """Let the group forget a topic that is no more, of which the share coordinator says nothing either."""
        there = self.shard.groups.get(GROUP)
        is_known = there is not None and gone in {*there.initializing, *there.initialized, *there.deleting}
        for results in self.shard.forget_topics({name: [gone]}, self.now_ms):
            for result in results:
                self.take(result)
                assert bool(result.records) == is_known, "a group that knows nothing of the topic writes nothing"
        self.asked = [(at_ms, topics) for at_ms, topics in self.asked if topics.pop(gone, None) is None or topics]
        self.unanswered = {key: at_ms for key, at_ms in self.unanswered.items() if key[0] != gone}
        self.ending = [left for ended in self.ending if (left := ended - {gone})]
        if GROUP in self.shard.groups:
            assert gone not in {*self.group.initializing, *self.group.initialized, *self.group.deleting}


class Life:
    """What a seed makes happen, and what must hold after each step."""

    def __init__(self, seed: int) -> None:
        self.dice, self.driver = Random(seed), ShareDriver()
        self.epochs: dict[str, int] = {}
        self.wants: dict[str, tuple[str, ...]] = {}
        self.ids = {topic.id: name for name, topic in self.driver.topics.items()}  # also those of topics that are gone
        self.altered: set[bytes] = set()  # topics of which an administrator has set offsets
        self.forced: Any = None  # the epoch with the target that an operator has forced, and what it was forced for

    def step(self) -> None:
        self.dice.choice(
            (
                self.join,
                self.beat,
                self.beat,
                self.change,
                self.leave,
                self.answer,
                self.answer,
                self.lose,
                self.forget,
                self.grow,
                self.vanish,
                self.force,
                self.force_in_vain,
                self.interfere,
                self.alter,
                self.start_again,
            )
        )()
        self.driver.wait(self.dice.choice((0, 0, 500, 2_000, 6_000)))
        if GROUP in self.driver.shard.groups:
            for name in self.epochs:
                is_there = id_of(name) in self.driver.group.members
                assert is_there == (self.driver.now_ms - self.driver.beats[id_of(name)] < SESSION_MS)
            self.epochs = {name: at for name, at in self.epochs.items() if id_of(name) in self.driver.group.members}
            self.check()

    def join(self) -> None:
        if len(self.epochs) < 4:
            member = f"m{self.driver.fresh_id()}"
            self.wants[member] = tuple(self.dice.choices(NAMES, k=2))  # the same one twice, now and then
            self.note(member, self.driver.beat(member, 0, self.wants[member]))

    def beat(self) -> None:
        if self.epochs:
            member = self.dice.choice(sorted(self.epochs))
            before = self.epochs[member]
            self.note(member, self.driver.beat(member, before))
            if self.dice.random() < 0.3:
                epoch = self.driver.group.epoch
                self.note(member, self.driver.beat(member, before))  # the response was lost
                assert self.driver.group.epoch == epoch, "nothing has changed meanwhile"

    def change(self) -> None:
        if self.epochs:
            member = self.dice.choice(sorted(self.epochs))
            before, self.wants[member] = self.epochs[member], tuple(self.dice.sample(NAMES, self.dice.randrange(1, 3)))
            self.note(member, self.driver.beat(member, before, self.wants[member]))
            self.note(member, self.driver.beat(member, before, self.wants[member]))

    def note(self, member: str, answer: ShareGroupHeartbeatResponse) -> None:
        assert answer.error_code == 0, (member, answer)
        self.epochs[member] = answer.member_epoch

    def leave(self) -> None:
        if len(self.epochs) > self.dice.randrange(3):
            member = self.dice.choice(sorted(self.epochs))
            self.remove([member], lambda: self.driver.beat(member, -1).error_code == 0, Cause.MEMBER_LEFT)

    def remove(self, members: list[str], act: Callable[[], bool], cause: Cause) -> None:
        """Let members go, all with one rise of the epoch, which is of the topics that are left; each is told of."""
        epoch = self.driver.group.epoch
        self.driver.events.clear()
        assert act()
        for member in members:
            del self.epochs[member]
        group = self.driver.group
        assert {member.member_id for member in group.members.values()} == {id_of(member) for member in self.epochs}
        assert set(group.targets) <= set(group.members)
        assert group.epoch == epoch + bool(members)
        assert not members or group.metadata_hash == metadata_hash(group, self.driver.topics)
        told = [event.member for event in self.driver.events if event.cause is cause]
        assert sorted(told) == sorted(map(id_of, members))
        timers = {key[2] for key, _ in self.driver.shard.timers.items() if key[1] == GROUP}
        assert timers == set(group.members), "the session of each member, and of nobody else"

    def interfere(self) -> None:
        """What an operator may do: remove a member, or all of them, or raise the epoch."""
        if GROUP not in self.driver.shard.groups:
            return
        how, call, members = self.dice.random(), self.driver.call(0), sorted(self.epochs)
        if how < 0.2:
            self.remove(
                members, lambda: not self.driver.handle(LoseMembers(GROUP), call).response.refusal, Cause.MEMBERS_LOST
            )
        elif how < 0.6 and members:
            verb = RemoveMember(GROUP, id_of(members[0]))
            self.remove(members[:1], lambda: not self.driver.handle(verb, call).response.refusal, Cause.SESSION_EXPIRED)
        elif how < 0.8:
            before = self.driver.group
            refused = self.driver.handle(RemoveMember(GROUP, "nobody"), call).response.refusal
            assert refused == f"there is no member 'nobody' in group '{GROUP}'" and self.driver.group is before
        else:
            epoch = self.driver.group.epoch
            answer = self.driver.handle(Rebalance(GROUP), call).response
            assert (not answer.refusal) == bool(members) == (self.driver.group.epoch > epoch)
            self.forced = None

    def force_in_vain(self) -> None:
        """Targets that cannot be."""
        if not self.epochs:
            return
        some, topic = id_of(self.dice.choice(sorted(self.epochs))), self.dice.choice(NAMES)
        count, before = self.driver.topics[topic].partitions, self.driver.group
        good = {topic: (0,)}
        for verb, why in (
            (SetTarget(GROUP, {some: good, "nobody": good}), "invalid target: nobody is no member"),
            (SetTarget(GROUP, {some: {topic: (0,), "gone": (0,)}}), "invalid topic 'gone'"),
            (SetTarget(GROUP, {some: {topic: (0, count)}}), f"invalid target: topic '{topic}' lacks"),
            (SetTarget(GROUP, {some: {topic: (0, -1)}}), f"invalid target: topic '{topic}' lacks"),
            (SetTarget(GROUP, {some: good}, {some: good}), "invalid standbys"),
        ):
            assert self.driver.handle(verb, self.driver.call(0)).response.refusal.startswith(why)
            assert self.driver.group is before

    def alter(self) -> None:
        """An administrator sets offsets: of topics that are there or not. One may be named twice: all it names counts."""
        names = ("gone",) if self.dice.random() < 0.2 else (*NAMES, "gone")
        wanted = [(self.dice.choice(names), self.dice.sample(range(7), 2)) for _ in range(3)]
        topics = tuple(
            AlterShareGroupOffsetsRequestTopic(
                name, tuple(AlterShareGroupOffsetsRequestPartition(index, 10 + index) for index in partitions)
            )
            for name, partitions in wanted
        )
        before = self.driver.shard.groups.get(GROUP)
        self.driver.begun.clear()
        answer = self.driver.handle(AlterShareGroupOffsetsRequest(GROUP, topics), self.driver.call(0)).response
        if self.epochs:
            assert answer.error_code == ErrorCode.NON_EMPTY_GROUP and self.driver.shard.groups.get(GROUP) is before
            return
        counts = {name: topic.partitions for name, topic in self.driver.topics.items()}
        joined: dict[str, list[int]] = {}
        for name, partitions in wanted:
            joined.setdefault(name, []).extend(partitions)
        told = {
            one.topic_name: {each.partition_index: each.error_code for each in one.partitions}
            for one in answer.responses
        }
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert told == {
            name: {index: ErrorCode.NONE if index < counts.get(name, 0) else unknown for index in partitions}
            for name, partitions in joined.items()
        }
        good = {
            self.driver.topics[name].id: {index: 10 + index for index in partitions if index < counts[name]}
            for name, partitions in joined.items()
            if name in counts
        }
        assert self.driver.begun == ([good] if any(good.values()) else [])
        self.altered |= good.keys()
        if not good:
            assert self.driver.shard.groups.get(GROUP) is before, "no group is made for nothing"

    def start_again(self) -> None:
        """Nothing is known of when a state was asked for: it is asked for again at once."""
        self.driver.rebuild()
        self.driver.load()
        self.driver.unanswered.clear()
        self.driver.beats = dict.fromkeys(self.driver.beats, self.driver.now_ms)
        self.forced = None

    def answer(self) -> None:
        """Some of what was asked for has begun, or could not be begun; or states that were to end are gone."""
        if self.driver.ending and self.dice.random() < 0.5:
            ended = self.driver.ending.pop()
            self.driver.note_ended(frozenset(self.dice.sample(sorted(ended), self.dice.randint(1, len(ended)))))
        elif self.driver.asked:
            _, asked = self.driver.asked.pop(self.dice.randrange(len(self.driver.asked)))
            topic_id = self.dice.choice(sorted(asked))
            say = NoteBegunStates if self.dice.random() < 0.8 else NoteFailedStates
            self.driver.answer(say, topic_id, asked[topic_id])

    def lose(self) -> None:
        self.driver.asked.clear()
        if self.dice.random() < 0.3:
            self.driver.wait(31_000)

    def forget(self) -> None:
        if GROUP in self.driver.shard.groups and not self.epochs:
            self.driver.end_states(self.dice.sample(NAMES, 2))

    def force(self) -> None:
        """An operator sets the target, and leaves out what he likes."""
        if self.epochs:
            targets = {
                id_of(name): {
                    topic: tuple(self.dice.choices(range(3), k=self.dice.randrange(1, 4)))
                    for topic in self.dice.sample(NAMES, self.dice.randrange(1, 3))
                }
                for name in self.epochs
            }
            self.driver.handle(SetTarget(GROUP, targets), self.driver.call(0))
            group = self.driver.group
            for member_id, wanted in targets.items():
                expected = {self.driver.topics[topic].id: tuple(sorted(set(some))) for topic, some in wanted.items()}
                assert group.target(member_id) == expected
            self.forced = (group.epoch, self.subscriptions(), self.driver.topics, dict(group.targets))

    def subscriptions(self) -> dict[str, tuple[str, ...]]:
        return {member.member_id: member.names for member in self.driver.group.members.values()}

    def grow(self) -> None:
        topics = {name: self.driver.topics[name] for name in NAMES}
        name = self.dice.choice(NAMES)
        if topics[name].partitions < 6:
            topics[name] = Topic(name, topics[name].id, topics[name].partitions + 1)
            self.driver.set_topics(Topics(topics.values(), self.driver.topics.version + 1))

    def vanish(self) -> None:
        """A topic is deleted, and made anew at once."""
        if self.dice.random() < 0.3:
            topics, name = {one: self.driver.topics[one] for one in NAMES}, self.dice.choice(NAMES)
            gone, topics[name] = topics[name].id, Topic(name, self.driver.fresh_id().encode().rjust(16), 3)
            self.driver.set_topics(Topics(topics.values(), self.driver.topics.version + 1))
            self.driver.forget(name, gone)
            self.ids[topics[name].id] = name

    def check(self) -> None:
        group = self.driver.group
        wanted = {member: set(self.wants[member]) for member in self.epochs}
        counts = {name: sum(name in names for names in wanted.values()) for name in NAMES}
        assert {name: count for name, count in counts.items() if count} == dict(group.names)
        for member, names in wanted.items():
            assigned = group.members[id_of(member)].assigned
            assert {self.ids[one] for one in assigned} <= names, "nobody reads what it does not subscribe to"
        for topic_id, one in (*group.initializing.items(), *group.initialized.items()):
            assert one.partitions or topic_id in self.altered, "a topic without states is not named"
        for topic_id, one in group.initialized.items():
            if topic_id in self.altered:  # a state begins anew beside the one that there is
                continue
            assert not set(one.partitions) & set(getattr(group.initializing.get(topic_id), "partitions", ()))
        if self.forced is not None:
            epoch, subscriptions, topics, targets = self.forced
            if group.epoch == epoch:
                assert dict(group.targets) == targets, "what an operator has forced stays"
            else:
                has_changed = subscriptions != self.subscriptions() or topics is not self.driver.topics
                assert has_changed, "until something changes the group"
                self.forced = None


@pytest.mark.parametrize("seed", range(40))
def test_what_members_are_told_and_the_group_remembers(seed: int) -> None:
    life = Life(seed)
    if seed % 4 == 0:
        life.alter()  # before there is a group
    for _ in range(250):
        life.step()
    rebuilt = Shard(0, LIMITS, life.driver.topics)
    for key, value, _ in life.driver.log:
        rebuilt.replay(records.decode(key, value))
    durable.assert_equal(durable.facts(rebuilt), durable.facts(life.driver.shard))
    if GROUP in life.driver.shard.groups:
        life.driver.handle(Forget(GROUP), life.driver.call(0))  # which ends the states first
        if GROUP in life.driver.shard.groups:
            life.driver.note_ended(frozenset(life.driver.group.deleting))
        life.driver.forget_group(GROUP)


def begun(driver: ShareDriver, name: str, *partitions: int) -> None:
    driver.answer(NoteBegunStates, name.encode() * 16, set(partitions))


def test_what_is_being_begun_stays_so_until_it_is_heard_of() -> None:
    driver = ShareDriver()
    driver.beat("m", 0, ("a", "b"))
    begun(driver, "a", 0, 1)
    left = {topic_id: one.partitions for topic_id, one in driver.group.initializing.items()}
    assert left == {b"a" * 16: (2,), b"b" * 16: (0, 1, 2)}


def test_an_answer_that_is_lost_is_asked_for_again_after_a_while() -> None:
    driver = ShareDriver()
    epoch = driver.beat("m", 0, ("a",)).member_epoch
    for wait_ms, times in ((RETRY_MS - 1, 1), (1, 2), (RETRY_MS - 1, 2)):
        driver.wait(wait_ms)
        epoch = driver.beat("m", epoch).member_epoch
        assert len(driver.asked) == times
    assert driver.asked[0][1] == driver.asked[1][1]


def test_offsets_of_partitions_that_do_not_exist_do_not_put_off_that_a_topic_is_asked_for_again() -> None:
    driver = ShareDriver()
    driver.beat("m", 0, ("a",))
    driver.beat("m", -1)
    driver.wait(RETRY_MS - 1)
    unknown = AlterShareGroupOffsetsRequestTopic("a", (AlterShareGroupOffsetsRequestPartition(9, 0),))
    answer = driver.handle(AlterShareGroupOffsetsRequest(GROUP, (unknown,)), driver.call(0)).response
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    driver.wait(1)
    driver.beat("m", 0, ("a",))
    assert len(driver.asked) == 2


def test_what_happens_to_other_topics_does_not_put_off_that_a_topic_is_asked_for_again() -> None:
    driver, names = ShareDriver(), {name.encode() * 16: name for name in NAMES}
    first, second = NAMES[:2]
    one = driver.beat("m", 0, (first,)).member_epoch
    driver.wait(RETRY_MS // 2)
    two = driver.beat("n", 0, (second,)).member_epoch  # which writes the states of both
    for wait_ms, expected in (
        (RETRY_MS // 2 - 1, []),
        (1, [first]),
        (RETRY_MS // 2, [second]),
        (RETRY_MS // 2, [first]),
    ):
        driver.asked.clear()
        driver.wait(wait_ms)
        one, two = driver.beat("m", one).member_epoch, driver.beat("n", two).member_epoch
        assert [names[topic_id] for _, asked in driver.asked for topic_id in asked] == expected


def test_a_target_that_waits_for_its_interval_does_not_raise_the_epoch_again() -> None:
    driver = ShareDriver()
    epoch = driver.beat("m", 0, ("a",)).member_epoch
    begun(driver, "a", 0, 1, 2)
    driver.wait(100)
    driver.beat("m", epoch)
    raised = driver.group.epoch
    driver.wait(100)
    driver.beat("m", epoch)
    assert driver.group.epoch == raised


def test_events_tell_why_an_epoch_began() -> None:
    driver = ShareDriver()
    epoch = driver.beat("m", 0, ("a",)).member_epoch
    driver.wait(6_000)
    begun(driver, "a", 0, 1, 2)
    epoch = driver.beat("m", epoch).member_epoch
    driver.set_topics(Topics([Topic("a", b"a" * 16, 4)], 1))
    driver.wait(6_000)
    epoch = driver.beat("m", epoch).member_epoch
    begun(driver, "a", 3)
    driver.wait(6_000)
    driver.beat("m", epoch)
    began = (Cause.MEMBER_JOINED, Cause.PARTITIONS_INITIALIZED, Cause.TOPICS_CHANGED)
    told = [(one.generation, one.cause) for one in driver.events if one.cause in began]
    assert told == [
        (2, Cause.MEMBER_JOINED),
        (3, Cause.PARTITIONS_INITIALIZED),
        (4, Cause.TOPICS_CHANGED),
        (5, Cause.PARTITIONS_INITIALIZED),
    ]


def test_a_topic_that_vanishes_while_its_states_end_is_forgotten() -> None:
    driver = ShareDriver()
    driver.beat("m", 0, ("a",))
    begun(driver, "a", 0, 1, 2)
    driver.beat("m", -1)
    driver.handle(DeleteShareGroupOffsetsRequest(GROUP, (DeleteShareGroupOffsetsRequestTopic("a"),)), driver.call(0))
    assert dict(driver.group.deleting) == {b"a" * 16: "a"}
    for results in driver.shard.forget_topics({"a": [b"a" * 16]}, driver.now_ms):
        driver.take_all(results)
    assert not driver.group.deleting


def test_the_epoch_before_is_taken_though_the_assignment_has_changed_within_the_epoch() -> None:
    driver = ShareDriver()
    before = driver.beat("m", 0, ("a", "b")).member_epoch
    begun(driver, "a", 0, 1, 2)
    begun(driver, "b", 0, 1, 2)
    driver.wait(6_000)
    lost = driver.beat("m", before)
    assert lost.member_epoch > before
    for _ in range(2):  # and the second response is lost as well
        again = driver.beat("m", before, ("a",))
        assert (again.error_code, again.member_epoch) == (0, lost.member_epoch)
    assert driver.group.members[id_of("m")].assigned.keys() == {b"a" * 16}


def test_an_answer_is_asked_for_again_when_the_clock_was_put_back() -> None:
    driver = ShareDriver()
    epoch = driver.beat("m", 0, ("a",)).member_epoch
    driver.unanswered.clear()
    driver.now_ms -= 3_600_000
    driver.beat("m", epoch)
    assert len(driver.asked) == 2


def test_a_group_that_is_deleted_remembers_all_states_that_end() -> None:
    """Those that are there, those that are being begun, and those of which the end was not heard of; of a topic that is
    no more there are none."""
    driver = ShareDriver()
    driver.beat("m", 0, NAMES)
    for name in NAMES[1:]:
        begun(driver, name, 0, 1, 2)
    driver.beat("m", -1)
    forget = tuple(DeleteShareGroupOffsetsRequestTopic(name) for name in NAMES[1:])
    driver.handle(DeleteShareGroupOffsetsRequest(GROUP, forget), driver.call(0))
    driver.ending.clear()
    driver.set_topics(driver.topics.without_topic("c"))
    driver.handle(EndAllShareStates(GROUP), driver.call(0))
    assert dict(driver.group.deleting) == {b"a" * 16: "a", b"b" * 16: "b"}
    assert driver.ending == [frozenset({b"a" * 16, b"b" * 16})]


def test_of_several_topics_that_are_being_forgotten_one_vanishes() -> None:
    driver = ShareDriver()
    driver.beat("m", 0, NAMES)
    for name in NAMES:
        begun(driver, name, 0)
    driver.beat("m", -1)
    forget = tuple(DeleteShareGroupOffsetsRequestTopic(name) for name in NAMES)
    driver.handle(DeleteShareGroupOffsetsRequest(GROUP, forget), driver.call(0))
    for results in driver.shard.forget_topics({"b": [b"b" * 16]}, driver.now_ms):
        driver.take_all(results)
    assert set(driver.group.deleting.values()) == {"a", "c"}


def test_a_state_that_begins_after_its_topic_has_gone_has_a_name_too() -> None:
    driver = ShareDriver()
    driver.beat("m", 0, ("a",))
    driver.set_topics(driver.topics.without_topic("a"))
    begun(driver, "a", 0, 1, 2)
    assert driver.group.initialized[b"a" * 16].name == "<UNKNOWN>"
    driver.rebuild()


@pytest.mark.parametrize(
    ("member_id", "error"), [("\U0001f600" * 18, 0), ("\U0001f600" * 18 + "x", 42), ("x" * 37, 42)]
)
def test_a_member_id_has_at_most_36_units_as_java_counts(member_id: str, error: int) -> None:
    driver = ShareDriver()
    request = ShareGroupHeartbeatRequest(GROUP, member_id, 0, None, ("a",))
    assert driver.handle(request, driver.call(1)).response.error_code == error


def test_a_full_group_goes_on_with_the_members_that_it_has() -> None:
    driver = ShareDriver()
    driver.shard.limits = replace(LIMITS, group_share_max_size=2)
    epochs = {name: driver.beat(name, 0, ("a",)).member_epoch for name in ("m", "n")}
    assert driver.beat("o", 0, ("a",)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [driver.beat(name, epoch).error_code for name, epoch in epochs.items()] == [0, 0]
    assert driver.beat("m", 0, ("b",)).error_code == 0
    driver.beat("n", -1)
    assert driver.beat("o", 0, ("a",)).error_code == 0
