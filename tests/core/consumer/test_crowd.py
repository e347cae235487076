"""Consumer groups under random clients, clocks, topics and restarts: safety at every step, and they always settle."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from coordinator.core.topics import Topic
from tests.core.consumer.crowd import TOPICS, Classic, Consumer, Crowd
from tests.core.world import topic_id

SOME_NAMES = st.sets(st.sampled_from(TOPICS)).map(sorted)
ROUNDS_MAX = 24  # of five seconds: a handover takes three, a pattern ten seconds, a silent member 45


class Life(RuleBasedStateMachine):
    """Clients of the new protocol alone."""

    mixed = False

    @initialize(interval_ms=st.sampled_from((0, 1_000)))
    def begin(self, interval_ms: int) -> None:
        self.crowd = Crowd(group_consumer_assignment_interval_ms=interval_ms)
        self.created = 0

    def some(self, data: st.DataObject, kind: type[Any] = Consumer) -> Any:
        clients = [client for client in self.crowd.clients.values() if isinstance(client, kind)]
        return data.draw(st.sampled_from(clients)) if clients else None

    @precondition(lambda self: len(self.crowd.clients) < 6)
    @rule(names=SOME_NAMES, static=st.booleans(), regex=st.sampled_from(("", "", "", "[tu]", ".*", "x.*")))
    def a_consumer_joins(self, names: list[str], static: bool, regex: str) -> None:
        instance = f"i{self.crowd.number()}" if static else None
        self.crowd.add(Consumer(self.crowd, names, instance, regex))

    @rule(data=st.data(), promptly=st.booleans())
    def a_client_speaks(self, data: st.DataObject, promptly: bool) -> None:
        client = self.some(data, object)
        if client is not None:
            client.step(promptly=promptly)

    @rule(promptly=st.booleans())
    def everybody_speaks(self, promptly: bool) -> None:
        for client in tuple(self.crowd.clients.values()):
            client.step(promptly=promptly)

    @rule(data=st.data())
    def a_client_leaves(self, data: st.DataObject) -> None:
        client = self.some(data, object)
        if client is not None:
            client.leave()
            self.crowd.drop(client.name)

    @rule(data=st.data())
    def a_client_dies(self, data: st.DataObject) -> None:
        client = self.some(data, object)
        if client is not None:
            self.crowd.drop(client.name)

    @rule(data=st.data())
    def a_static_member_bounces(self, data: st.DataObject) -> None:
        client = self.some(data)
        if client is not None and client.instance_id is not None and client.epoch > 0:
            client.away()
            self.crowd.drop(client.name)
            self.crowd.add(Consumer(self.crowd, client.names, client.instance_id, client.regex))

    @rule(data=st.data(), names=SOME_NAMES, regex=st.sampled_from((None, "", "[tu]", "t.*")))
    def a_consumer_resubscribes(self, data: st.DataObject, names: list[str], regex: str | None) -> None:
        client = self.some(data)
        if client is not None:
            client.names, client.says_all = tuple(names), True
            client.regex = client.regex if regex is None else regex

    @rule(data=st.data())
    def an_answer_is_lost(self, data: st.DataObject) -> None:
        client = self.some(data)
        if client is not None:
            client.deaf = True
            client.step(promptly=True)
            client.deaf = False

    @rule(name=st.sampled_from(TOPICS), how=st.sampled_from(("grow", "again", "delete")))
    def topics_change(self, name: str, how: str) -> None:
        topics = self.crowd.topics
        if name not in topics or how == "again":
            self.created += 1
            made = Topic(name, topic_id(f"{name}{self.created}"), 2)
            self.forget(name)
            self.crowd.set_topics(topics.without(name).with_topic(made))
        elif how == "grow":
            topic = topics[name]
            self.crowd.set_topics(topics.with_topic(Topic(name, topic.id, topic.partitions + 1)))
        else:
            self.forget(name)
            self.crowd.set_topics(topics.without(name))

    def forget(self, name: str) -> None:
        """Partitions of a topic that is gone are nobody's, whatever clients think."""
        for client in self.crowd.clients.values():
            client.owned = {partition for partition in client.owned if partition[0] != name}

    @rule(ms=st.sampled_from((0, 100, 1_000, 5_000, 12_000, 30_000)))
    def time_passes(self, ms: int) -> None:
        self.crowd.wait(ms)

    @rule(compacted=st.booleans())
    def the_server_restarts(self, compacted: bool) -> None:
        self.crowd.restart(compacted=compacted)

    def teardown(self) -> None:
        """Once inputs stop, everybody has what it shall have within a bounded number of heartbeats."""
        if hasattr(self, "crowd"):
            self.crowd.settle(ROUNDS_MAX)
            self.crowd.restart(compacted=True)


class MixedLife(Life):
    """Clients of both protocols: the group goes over to the one and back to the other while it lives."""

    mixed = True

    @precondition(lambda self: len(self.crowd.clients) < 6)
    @rule(names=SOME_NAMES, static=st.booleans())
    def a_classic_client_joins(self, names: list[str], static: bool) -> None:
        instance = f"i{self.crowd.number()}" if static else None
        self.crowd.add(Classic(self.crowd, names, instance))


QUICK = settings(
    max_examples=60,
    stateful_step_count=40,
    report_multiple_bugs=False,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)


@pytest.mark.rule("K-143 K-144 K-180 K-365 K-398")
@pytest.mark.parametrize("life", [Life, MixedLife])
def test_nobody_shares_epochs_rise_and_all_settle(life: type[Life]) -> None:
    """At every step; and the group settles once inputs stop."""
    run_state_machine_as_test(life, settings=QUICK)
