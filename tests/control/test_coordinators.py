"""Which broker coordinates what, as a model has it: brokers that stop and start, moves that overtake each other, loads."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from coordinator.core.catalog.catalog import GROUP
from coordinator.core.events import Cause
from coordinator.core.share_state.values import StateKey
from coordinator.dataplane.brokers import NOBODY
from coordinator.server.verbs.clock import keep_everybody
from coordinator.server.verbs.refusal import Refusal
from protocol.errors import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from tests.control.cluster import BROKERS, Cluster
from tests.members import ConsumerMember
from tests.requests import alter_configs

GROUPS, STATES = 4, 5  # partitions
LOAD_MS = 1_000
SESSION_MS = 45_001  # of the first group; each has its own
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
NAMES = tuple("abcdefgh")
ACTS = st.one_of(
    st.tuples(st.just("stop"), st.integers(0, BROKERS - 1), st.sampled_from([0, LOAD_MS])),
    st.tuples(st.just("stop_all"), st.permutations(range(BROKERS)), st.sampled_from([0, LOAD_MS])),
    st.tuples(st.just("start"), st.integers(0, BROKERS - 1), st.sampled_from([0, LOAD_MS])),
    st.tuples(st.just("move_group"), st.sampled_from(NAMES), st.integers(0, BROKERS - 1), st.sampled_from([0, LOAD_MS])),
    st.tuples(st.just("move_transaction"), st.sampled_from(NAMES), st.integers(0, BROKERS - 1), st.sampled_from([0, LOAD_MS])),
    st.tuples(st.just("wait"), st.sampled_from([1, LOAD_MS // 2, LOAD_MS - 1, LOAD_MS])),
)  # fmt: skip


class Coordination(Struct):
    """Who coordinates a partition of groups, transactions or share states, and since when."""

    broker: int
    from_ms: int = 0  # when it is served


class Model:
    """The broker of each partition, and how often its groups were told that it has changed."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.stopped: set[int] = set()
        self.told: Counter[int] = Counter()  # how often each partition of groups has lost a coordinator that served it
        self.groups = [Coordination(index % BROKERS) for index in range(GROUPS)]
        self.transactions = [Coordination(index % BROKERS) for index in range(GROUPS)]
        self.states = [Coordination(index % BROKERS) for index in range(STATES)]

    def all(self) -> Iterator[tuple[int, Coordination]]:
        for owned in (self.groups, self.transactions, self.states):
            yield from enumerate(owned)

    def leave(self, one: Coordination) -> None:
        """The groups of a partition are told that their coordinator has moved, if it was there."""
        for index, owned in enumerate(self.groups):
            if owned is one and one.broker != NOBODY and self.now_ms >= one.from_ms:
                self.told[index] += 1

    def hand_over(self, broker: int, load_ms: int) -> None:
        running = [one for one in range(BROKERS) if one not in self.stopped]
        for index, one in self.all():
            if one.broker == broker:
                self.leave(one)
                one.broker = running[index % len(running)] if running else NOBODY
                one.from_ms = self.now_ms + load_ms

    def code(self, one: Coordination, asked: int) -> ErrorCode:
        if one.broker != asked:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE if self.now_ms >= one.from_ms else LOADING


class Play:
    """A cluster and the model, to which the same things happen."""

    def __init__(self) -> None:
        self.model, self.server = (
            Model(),
            Cluster(offsets_topic_num_partitions=GROUPS, share_coordinator_state_topic_num_partitions=STATES),
        )
        self.server.operator.clock.set_rate(0)
        self.begin_ms = self.server.clock.now_ms()
        topic_id = self.server.node.world.ledger.catalog.topics["orders"].id
        self.keys = [StateKey(name, topic_id, 0) for name in NAMES]
        for number, name in enumerate(NAMES):
            assert self.server.commit(name, number) == ErrorCode.NONE
            request = alter_configs(GROUP, name, {"consumer.session.timeout.ms": str(SESSION_MS + number)})
            assert self.server.connect(name).ask(request, 1).responses[0].error_code == 0
            code = self.server.node.engine.share_states.initialize(self.keys[number], 0, number, self.begin_ms)
            assert code == ErrorCode.NONE
        for name in NAMES[::2]:
            member = ConsumerMember(self.server.connect(name, broker=self.server.at(name)), name, group=name)
            assert member.beat().error_code == ErrorCode.NONE
        self.server.node.engine.flush()

    def stop(self, broker: int, load_ms: int) -> None:
        if broker in self.model.stopped:
            with pytest.raises(Refusal, match="is stopped already"):
                self.server.operator.brokers.stop(broker)
            return
        self.server.operator.brokers.stop(broker, load_ms=load_ms)
        self.model.stopped.add(broker)
        self.model.hand_over(broker, load_ms)

    def stop_all(self, order: list[int], load_ms: int) -> None:
        """In any order; then they come back one after the other."""
        for broker in order:
            self.stop(broker, load_ms)
            self.compare()

    def start(self, broker: int, load_ms: int) -> None:
        if broker not in self.model.stopped:
            with pytest.raises(Refusal, match="is running already"):
                self.server.operator.brokers.start(broker)
            return
        self.server.operator.brokers.start(broker, load_ms=load_ms)
        self.model.stopped.discard(broker)
        self.model.hand_over(NOBODY, load_ms)

    def move_group(self, name: str, to: int, load_ms: int) -> None:
        self.move(self.server.operator.brokers.move_group, self.model.groups, name, to, load_ms)

    def move_transaction(self, name: str, to: int, load_ms: int) -> None:
        self.move(self.server.operator.brokers.move_transaction, self.model.transactions, name, to, load_ms)

    def move(self, move: Any, owned: list[Coordination], name: str, to: int, load_ms: int) -> None:
        if to in self.model.stopped:
            with pytest.raises(Refusal, match=f"broker {to} is stopped"):
                move(name, to)
            return
        move(name, to, load_ms=load_ms)
        one = owned[self.server.node.world.coordinators.partition_of(name)]
        self.model.leave(one)
        one.broker, one.from_ms = to, self.model.now_ms + load_ms

    def wait(self, ms: int) -> None:
        self.server.operator.clock.advance(ms, keep_everybody)
        self.model.now_ms += ms

    def compare(self) -> None:
        """What each broker says is what the model says."""
        self.server.rest()
        node, model = self.server.node, self.model
        for number, (name, key) in enumerate(zip(NAMES, self.keys, strict=True)):
            limits = node.world.partitions.limits_of(name)
            assert limits.group_consumer_session_timeout_ms == SESSION_MS + number, "settings stay wherever a group is"
            index = node.world.coordinators.partition_of(name)
            group, transactional = model.groups[index], model.transactions[index]
            state = model.states[node.engine.share_states.partition_of(key)]
            for broker in set(range(BROKERS)) - model.stopped:
                where = self.server.listeners[broker].where
                partition = node.world.partitions.owner(name)
                assert node.world.coordinators.refuse(partition, where) == model.code(group, broker)
                assert node.world.coordinators.refuse_transaction(name, where) == model.code(transactional, broker)
            for kind, one in (("group", group), ("transaction", transactional)):
                view = self.server.operator.brokers.coordinator(name, kind)
                is_loading = one.broker != NOBODY and model.code(one, one.broker) != ErrorCode.NONE
                assert (view.broker, view.is_loading) == (None if one.broker == NOBODY else one.broker, is_loading)
            served = (
                model.code(transactional, transactional.broker) == ErrorCode.NONE and transactional.broker != NOBODY
            )
            assert node.world.coordinators.is_transaction_served(name) == served
            read = node.engine.share_states.read(key, -1, self.server.clock.now_ms())
            if state.broker == NOBODY:
                assert read == ErrorCode.COORDINATOR_NOT_AVAILABLE
            elif model.code(state, state.broker):
                assert read == LOADING
            else:
                assert read.start_offset == number
            if group.broker != NOBODY and not model.code(group, group.broker):
                assert self.server.offsets(name) == {0: number}
        for broker in range(BROKERS):
            self.compare_view(broker)
            if broker not in model.stopped:
                self.compare_list(broker)
        told = Counter(event.group for event in self.server.events if event.cause == Cause.COORDINATOR_MOVED)
        partition_of = node.world.coordinators.partition_of
        assert +told == +Counter({name: model.told[partition_of(name)] for name in NAMES[::2]}), (
            "the groups with members"
        )
        memory, shards = node.engine.memory, [partition.shard for partition in node.world.partitions]
        assert memory.members_bytes == sum(shard.members_bytes for shard in shards)
        assert memory.offsets_bytes == sum(shard.offsets.bytes for shard in shards)
        assert not node.world.edge.failures

    def compare_view(self, broker: int) -> None:
        """An operator sees how much a broker coordinates."""
        view, own = self.server.operator.brokers.view(broker), [self.model.groups, self.model.transactions]
        counts = [sum(one.broker == broker for one in owned) for owned in own]
        loading = sum(self.model.code(one, broker) == LOADING for owned in own for one in owned)
        assert (view.is_running, view.groups, view.transactions) == (broker not in self.model.stopped, *counts)
        assert view.loading == loading

    def compare_list(self, broker: int) -> None:
        """A broker lists its groups, or none while it loads some."""
        own = [index for index, one in enumerate(self.model.groups) if one.broker == broker]
        answer = self.server.connect("tool", broker=broker).ask(ListGroupsRequest(), 4)
        if any(self.model.code(self.model.groups[index], broker) for index in own):
            assert (answer.error_code, answer.groups) == (LOADING, ())
            return
        partition_of = self.server.node.world.coordinators.partition_of
        names = {name for name in NAMES if partition_of(name) in own}
        assert ({one.group_id for one in answer.groups}, answer.error_code) == (names, ErrorCode.NONE)


@given(st.lists(ACTS, min_size=4, max_size=12))
@settings(max_examples=40)
def test_each_partition_has_the_broker_that_the_model_says(acts: list[tuple[Any, ...]]) -> None:
    play = Play()
    for name, *arguments in acts:
        getattr(play, name)(*arguments)
        play.compare()
