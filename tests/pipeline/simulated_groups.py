"""Groups that live on the server's own engine: members that commit rarely or never, leave without a word, and die.

    engine = Engine(directory)
    for number in range(20):
        live(engine, f"group-{number}", Random(number), happenings=20)

`SimulatedGroup` is the members of a classic group, eager or cooperative, who do what clients do; `SimulatedConsumerGroup`
those of one of KIP-848. What really happened is what the engine's events say.
"""

from random import Random
from typing import Any

import msgspec

from protocol.messages import consumer_protocol as embedded
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.members import ConsumerMember
from tests.pipeline.engine import Engine
from tests.requests import commit, join, share

BEAT_MS = 3_000
UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED = 25, 79
NEVER, RARELY, OFTEN = 0.0, 0.05, 0.9  # how probably a member commits at a heartbeat
EVENTS = ("join", "join", "leave", "time_out", "static_rejoin", "subscription_change", "partition_growth")
MANY_EVENTS = ("join", "leave", "leave", "time_out", "time_out", "static_rejoin", "subscription_change",
               "partition_growth", "fall_quiet", "miss_rebalance", "begin_blind")  # fmt: skip
HARD_EVENTS = ("join", "join", "leave", "time_out", "static_rejoin", "get_stuck", "get_stuck", "give_up_joining",
               "pause_and_leave", "pause_and_leave", "commit_and_die", "fall_quiet", "begin_blind")  # fmt: skip
"""What looks like something else in the log: members that are stuck, that pause, that commit last and go."""
Shares = dict[str, list[int]]  # by topic


class Client(msgspec.Struct):
    """A member as its process sees it."""

    name: str
    instance: str | None = None
    topics: tuple[str, ...] = ("orders",)
    member_id: str = ""
    owned: Shares = {}


class Habits(msgspec.Struct, frozen=True):
    """What the members of a classic group are like."""

    is_cooperative: bool = False
    session_ms: int = 45_000
    rebalance_ms: int = 300_000
    commits: float = 1.0  # how probably at a heartbeat
    goes_together: tuple[int, ...] = (1,)  # how many leave, or fall silent, in the same moment
    is_slow: bool = False  # to rejoin
    commits_while_slow: bool = False

    @classmethod
    def draw(cls, dice: Random) -> "Habits":
        return cls(
            dice.random() < 0.5,
            dice.choice((10_000, 45_000, 45_000)),
            dice.choice((60_000, 300_000)),
            dice.choice((NEVER, RARELY, OFTEN, OFTEN, OFTEN)),
            (1, 1, 1, 2, 3),
            dice.random() < 0.3,
            dice.random() < 0.3,
        )


class SimulatedGroup:
    """The members of one classic group. Each thing that happens to it is followed by the rebalance that it leads to."""

    def __init__(self, engine: Engine, group: str, dice: Random, habits: Habits | None = None) -> None:
        self.engine, self.group, self.dice = engine, group, dice
        self.habits = habits or Habits()
        self.clients: list[Client] = []
        self.partitions = {"orders": 4, "payments": 2}
        self.unseen: dict[str, int] = {}  # topic -> how many of its partitions the leader does not know yet
        self.positions: dict[tuple[str, int], int] = {}
        self.generation = 0
        self._named = 0

    def live(self, happenings: int, kinds: tuple[str, ...] = EVENTS, work: int = 6) -> None:
        """So much happens, with up to so many rounds of work in between."""
        for _ in range(happenings):
            while len(self.clients) < 2:
                self.join()
            getattr(self, self.dice.choice(kinds))()
            for _ in range(self.dice.randrange(1, work)):
                self.work(self.clients)

    def settle(self) -> None:
        """Members whose session ended while nobody looked are gone; the others share out anew."""
        alive = [client for client in self.clients if client.member_id in self._members()]
        if alive != self.clients:
            self.clients = alive
            self._rebalance()

    def join(self) -> None:
        """A new member, now and then two at once."""
        for _ in range(self.dice.choice((1, 1, 1, 2))):
            self._named += 1
            instance = f"{self.group}-{self._named}" if self.dice.random() < 0.4 else None
            self.clients.append(Client(f"app-{self._named}", instance))
        self._rebalance()

    def leave(self) -> None:
        """One or more say goodbye, now and then after a last commit."""
        for gone in self._some():
            self.clients.remove(gone)
            if self.dice.random() < 0.4:
                self._commit(gone)
            who = LeaveGroupRequestMemberIdentity(gone.member_id, gone.instance)
            self.engine.ask(LeaveGroupRequest(self.group, members=(who,)), 5)
            self.engine.wait(self.dice.randrange(200))
        if self.clients:
            self._dawdle()
            self._rebalance()

    def time_out(self) -> None:
        """One or more fall silent in the same moment, and the others go on until their sessions end."""
        gone = self._some()
        self.clients = [client for client in self.clients if client not in gone]
        while any(client.member_id in self._members() for client in gone):
            self.work(self.clients)
            if self._state() not in ("Stable", None):
                self._rebalance_while_waiting(gone)
                return
        if self.clients:
            self._rebalance()

    def static_rejoin(self) -> None:
        """A process with an instance id is replaced by a new one before anybody misses it."""
        static = [client for client in self.clients if client.instance]
        if not static:
            self.join()
            return
        client = self.dice.choice(static)
        client.member_id = ""
        self.engine.wait(self.dice.randrange(500, 5_000))
        ticket = self._join(client)
        if not self.engine.has_answered(ticket):  # the group moves already
            others = [(one, self._join(one)) for one in self.clients if one is not client]
            self.engine.wait(self.dice.randrange(5, 400))
            self._complete([(client, ticket), *others])
            return
        answer = self.engine.answer(ticket)
        client.member_id = answer.member_id
        self._sync(client, answer.generation_id, client.owned, ())

    def subscription_change(self) -> None:
        """A member wants another topic, or no longer wants it."""
        client = self.dice.choice(self.clients)
        self.engine.leader_saw = "subscription_change"
        client.topics = ("orders", "payments") if client.topics == ("orders",) else ("orders",)
        self._rebalance(first=client)

    def partition_growth(self) -> None:
        """A topic grows; the leader sees it and joins again."""
        group = self.engine.shard.groups.get(self.group)  # gone with the last session, if all were busy too long
        leader = group and group.leader
        for client in self.clients:
            if client.member_id == leader:
                self.engine.leader_saw = "partition_count_change"
                self.partitions["orders"] += self.dice.randrange(1, 3)
                self._rebalance(first=client)
                return

    def begin_blind(self) -> None:
        """All leave, and a new leader joins before it knows its topics, as kafka-python does; then it joins again."""
        while self.clients:
            gone = self.clients.pop()
            who = LeaveGroupRequestMemberIdentity(gone.member_id, gone.instance)
            self.engine.ask(LeaveGroupRequest(self.group, members=(who,)), 5)
        self.engine.wait(self.dice.randrange(500, 9_000))
        sight = self.dice.choice(("none", "one topic", "fewer"))
        topics = ("orders", "payments") if sight == "one topic" else ("orders",)
        self.unseen = {"none": self.partitions, "one topic": {"payments": 2}, "fewer": {"orders": 2}}[sight]
        for _ in range(self.dice.choice((1, 1, 2))):
            self._named += 1
            self.clients.append(Client(f"app-{self._named}", topics=topics))
        self._rebalance()
        self.work(self.clients)
        self.unseen = {}
        self.engine.leader_saw = "partition_count_change" if sight == "fewer" else "topic_found"
        leader = self.engine.shard.groups[self.group].leader
        self._rebalance(first=next(client for client in self.clients if client.member_id == leader))

    def fall_quiet(self) -> None:
        """Nothing to read: all beat, nobody commits."""
        for _ in range(self.dice.randrange(5, 40)):
            self._beat_all()

    def miss_rebalance(self) -> None:
        """A new member joins, and an old one does not rejoin although it beats and commits."""
        stuck = self.dice.choice(self.clients)
        self.clients.remove(stuck)
        self._named += 1
        self.clients.append(Client(f"app-{self._named}"))
        self._rebalance_while_waiting([], stuck)

    def get_stuck(self) -> None:
        """A member leaves, and another one is busy until the others are tired of waiting; it beats, and may commit."""
        if len(self.clients) < 3:
            self.join()
            return
        gone, stuck = self.dice.sample(self.clients, 2)
        for client in (gone, stuck):
            self.clients.remove(client)
        who = LeaveGroupRequestMemberIdentity(gone.member_id, gone.instance)
        self.engine.ask(LeaveGroupRequest(self.group, members=(who,)), 5)
        self._rebalance_while_waiting([], stuck)

    def give_up_joining(self) -> None:
        """A newcomer begins a rebalance and goes before it ends, so that no record shows it; another member is stuck."""
        stuck = self.dice.choice(self.clients)
        self.clients.remove(stuck)
        self._named += 1
        newcomer = Client(f"app-{self._named}")
        ticket = self._join(newcomer)
        if newcomer.member_id:
            who = LeaveGroupRequestMemberIdentity(newcomer.member_id)
            self.engine.ask(LeaveGroupRequest(self.group, members=(who,)), 5)
            if self.engine.has_answered(ticket):
                self.engine.answer(ticket)
        self._rebalance_while_waiting([], stuck)

    def pause_and_leave(self) -> None:
        """A member has nothing to commit for about a session, and then says goodbye; the others are busy."""
        gone = self.dice.choice(self.clients)
        busy = [client for client in self.clients if client is not gone]
        rounds = self.habits.session_ms // BEAT_MS + self.dice.randrange(-1, 4)
        for _ in range(rounds):
            self.engine.wait(BEAT_MS)
            for client in self.clients:
                if self._beat(client) == 0 and client in busy:
                    self._commit_perhaps(client)
        self.clients.remove(gone)
        who = LeaveGroupRequestMemberIdentity(gone.member_id, gone.instance)
        self.engine.ask(LeaveGroupRequest(self.group, members=(who,)), 5)
        if self.clients:
            self._rebalance()

    def commit_and_die(self) -> None:
        """A member commits, and is killed in the same moment."""
        for client in self.clients[:1]:
            self._commit(client)
        self.time_out()

    def work(self, clients: list[Client]) -> None:
        """Some seconds in which these members beat and commit."""
        self.engine.wait(BEAT_MS)
        for client in clients:
            if self._beat(client) == 0:
                self._commit_perhaps(client)

    def _members(self) -> dict[str, Any]:
        group = self.engine.shard.groups.get(self.group)
        return {} if group is None else dict(group.members)

    def _state(self) -> str | None:
        group = self.engine.shard.groups.get(self.group)
        return None if group is None else str(group.state)

    def _some(self) -> list[Client]:
        return self.dice.sample(self.clients, min(len(self.clients), self.dice.choice(self.habits.goes_together)))

    def _beat(self, client: Client) -> int:
        beat = HeartbeatRequest(self.group, self.generation, client.member_id, client.instance)
        return int(self.engine.ask(beat, 4).error_code)

    def _beat_all(self) -> None:
        self.engine.wait(BEAT_MS)
        for client in self.clients:
            self._beat(client)

    def _dawdle(self) -> None:
        """The others are busy before they rejoin; they beat, and may commit."""
        for _ in range(self.dice.randrange(4, 18) if self.habits.is_slow else self.dice.randrange(2)):
            self._beat_all()
            for client in self.clients if self.habits.commits_while_slow else ():
                self._commit_perhaps(client)

    def _rebalance(self, first: Client | None = None) -> None:
        """All members join, whoever moved the group before the others, and the leader shares out."""
        order = sorted(self.clients, key=lambda client: (client is not first, client.member_id != ""))
        tickets = [(client, self._join(client)) for client in order]
        self.engine.wait(self.dice.randrange(5, 400))
        self._complete(tickets)

    def _rebalance_while_waiting(self, gone: list[Client], stuck: Client | None = None) -> None:
        """Rejoin while the join phase waits for members that do not come, until it gives them up."""
        tickets = [(client, self._join(client)) for client in sorted(self.clients, key=lambda c: c.member_id != "")]
        waiting = [stuck] if stuck else gone
        end_ms = self.engine.now_ms + 2 * (self.habits.rebalance_ms + self.habits.session_ms)
        while any(client.member_id in self._members() for client in waiting):
            assert self.engine.now_ms < end_ms, f"{self.group} waits for {waiting} for ever"
            self.engine.wait(BEAT_MS)
            if stuck is not None:
                self._beat(stuck)
                self._commit_perhaps(stuck)
        if tickets:
            self.engine.wait(BEAT_MS)
            self._complete(tickets)

    def _complete(self, tickets: list[tuple[Client, int]]) -> None:
        """The join phase is over: the leader shares out, and all get their share."""
        for _ in range(200):
            if all(self.engine.has_answered(ticket) for _, ticket in tickets):
                break
            self.engine.wait(BEAT_MS)
        answers = {client.name: self.engine.answer(ticket) for client, ticket in tickets}
        refused = [client for client, _ in tickets if answers[client.name].error_code]
        for client in refused:
            client.member_id, client.owned = "", {}
        if refused:
            self._rebalance()
            return
        for client, _ in tickets:
            client.member_id = answers[client.name].member_id
            self.generation = answers[client.name].generation_id
        before = {client.name: client.owned for client in self.clients}
        shares = {client.name: self._find_share(client, before) for client in self.clients}
        given = tuple(share(client.member_id, shares[client.name]) for client in self.clients)
        for client, _ in tickets:
            leads = answers[client.name].leader == client.member_id
            self._sync(client, self.generation, shares[client.name], given if leads else ())
        self._hand_over(before)

    def _hand_over(self, before: dict[str, Shares]) -> None:
        """Those who had to give up partitions rejoin, so that others get them."""
        for client in self.clients:
            lost = [
                (topic, number)
                for topic, numbers in before[client.name].items()
                for number in numbers
                if number not in client.owned.get(topic, ())
            ]
            if lost and self.habits.is_cooperative:
                self.engine.leader_saw = self.engine.changed_metadata = "cooperative_handover"
                self.engine.wait(self.dice.randrange(100))
                self._rebalance(first=client)
                self.engine.changed_metadata = "subscription_change"
                return

    def _find_share(self, client: Client, before: dict[str, Shares]) -> Shares:
        """Return what a member may have now: each topic's partitions in turns to those who want it.

        In a cooperative group that is nothing that another member has not given up yet.
        """
        shares = {}
        for topic in client.topics:
            takers = [one for one in self.clients if topic in one.topics]
            shares[topic] = list(range(takers.index(client), self._count_seen(topic), len(takers)))
        if not self.habits.is_cooperative:
            return shares
        taken = {
            (topic, number)
            for other, owned in before.items()
            for topic, numbers in owned.items()
            for number in numbers
            if other != client.name
        }
        return {topic: [n for n in numbers if (topic, n) not in taken] for topic, numbers in shares.items()}

    def _count_seen(self, topic: str) -> int:
        """Return how many partitions the leader knows of."""
        return self.partitions[topic] - self.unseen.get(topic, 0)

    @property
    def _protocol(self) -> str:
        return "sticky" if self.habits.is_cooperative else "range"

    def _join(self, client: Client) -> int:
        owned = tuple(
            embedded.ConsumerProtocolSubscriptionTopicPartition(topic, tuple(numbers))
            for topic, numbers in client.owned.items()
            if numbers and self.habits.is_cooperative
        )
        said = embedded.ConsumerProtocolSubscription(topics=client.topics, owned_partitions=owned)
        protocols = (JoinGroupRequestProtocol(self._protocol, embedded.write(said, 1)),)
        times = {"session_ms": self.habits.session_ms, "rebalance_ms": self.habits.rebalance_ms}
        request = join(self.group, client.member_id, client.instance, **times, protocols=protocols)
        ticket = self.engine.send(request, 9, client.name)
        if self.engine.has_answered(ticket, MEMBER_ID_REQUIRED):
            client.member_id = self.engine.answer(ticket).member_id
            return self._join(client)
        if self.engine.has_answered(ticket, UNKNOWN_MEMBER_ID):  # its session ended while another one was away
            self.engine.answer(ticket)
            client.member_id, client.owned = "", {}
            return self._join(client)
        return ticket

    def _sync(
        self, client: Client, generation: int, owned: Shares, shares: tuple[SyncGroupRequestAssignment, ...]
    ) -> None:
        request = SyncGroupRequest(
            self.group, generation, client.member_id, client.instance, "consumer", self._protocol, shares
        )
        self.engine.send(request, 5)
        client.owned = owned

    def _commit_perhaps(self, client: Client) -> None:
        if self.dice.random() < self.habits.commits:
            self._commit(client)

    def _commit(self, client: Client) -> None:
        offsets: dict[str, dict[int, int]] = {}
        for topic, numbers in client.owned.items():
            for number in numbers:
                self.positions[topic, number] = self.positions.get((topic, number), 0) + self.dice.randrange(40)
            offsets[topic] = {number: self.positions[topic, number] for number in numbers}
        who = {"member_id": client.member_id, "group_instance_id": client.instance}
        self.engine.ask(commit(self.group, offsets, self.generation, **who), 9)


class SimulatedConsumerGroup:
    """A consumer group (KIP-848) of dynamic and static members."""

    def __init__(self, engine: Engine, group: str, dice: Random) -> None:
        self.engine, self.group, self.dice = engine, group, dice
        self.members: list[ConsumerMember] = []
        self.habit = dice.choice((NEVER, RARELY, OFTEN))
        self._named = 0

    def live(self, happenings: int) -> None:
        """So much happens, with work in between."""
        kinds = ("join", "join", "leave", "time_out", "static_rejoin", "subscription_change")
        for _ in range(happenings):
            getattr(self, self.dice.choice(kinds) if len(self.members) > 1 else "join")()
            for _ in range(self.dice.randrange(3, 12)):
                self.work()

    def join(self, instance: str | None = None, **fields: Any) -> None:
        """A new member, with this instance id if one is given."""
        self._named += 1
        if instance is None and self.dice.random() < 0.4:
            instance = f"{self.group}-{self._named}"
        self.members.append(ConsumerMember(self.engine, f"member-{self._named}", self.group, instance=instance))
        self._beat(self.members[-1], rebalance_timeout_ms=60_000, **fields)

    def leave(self) -> None:
        """One or two members say goodbye."""
        for member in self._some():
            self._leave(member, -1)

    def time_out(self) -> None:
        """One or two members fall silent."""
        gone = self._some()
        self.members = [member for member in self.members if member not in gone]
        while any(member.name in self.engine.shard.groups[self.group].members for member in gone):
            self.work()

    def static_rejoin(self) -> None:
        """A static member goes away for a moment and comes back under another id."""
        static = [member for member in self.members if member.instance]
        if not static:
            self.join()
            return
        member = self.dice.choice(static)
        self._leave(member, -2)
        self.engine.wait(1_000)
        if self.dice.random() < 0.3:
            self.join()  # somebody else, so that the group's epoch is another one when it is back
        topics = ("orders", "payments") if self.dice.random() < 0.4 else ("orders",)
        self.join(member.instance, subscribed_topic_names=topics)

    def subscription_change(self) -> None:
        """A member wants another topic, too, or no longer."""
        member = self.dice.choice(self.members)
        self._beat(member, subscribed_topic_names=self.dice.choice((("orders",), ("orders", "payments"))))

    def work(self) -> None:
        """Some seconds in which all beat, and some commit."""
        self.engine.wait(BEAT_MS)
        for member in list(self.members):
            self._beat(member)
            if member in self.members and self.dice.random() < self.habit:
                who = {"member_id": member.name, "group_instance_id": member.instance}
                offsets = {"orders": {0: self.dice.randrange(1000)}}
                self.engine.ask(commit(self.group, offsets, member.epoch, **who), 9)

    def _some(self) -> list[ConsumerMember]:
        return self.dice.sample(self.members, min(len(self.members), self.dice.choice((1, 1, 2))))

    def _leave(self, member: ConsumerMember, epoch: int) -> None:
        member.epoch = epoch
        member.beat()
        self.members.remove(member)

    def _beat(self, member: ConsumerMember, **fields: Any) -> None:
        if member.beat(**fields).error_code:
            self.members.remove(member)


def live_hard(engine: Engine, group: str, dice: Random, happenings: int) -> None:
    """One classic group lives, whose members do what is easily mistaken."""
    habits = msgspec.structs.replace(
        Habits.draw(dice),
        session_ms=dice.choice((6_000, 10_000, 45_000)),
        rebalance_ms=dice.choice((6_000, 12_000, 60_000, 300_000)),
        commits=dice.choice((RARELY, OFTEN, OFTEN, OFTEN)),
    )
    SimulatedGroup(engine, group, dice, habits).live(happenings, HARD_EVENTS, work=30)


def live(engine: Engine, group: str, dice: Random, happenings: int) -> None:
    """One group lives: every third is of the new protocol."""
    if dice.randrange(3) == 0:
        SimulatedConsumerGroup(engine, group, dice).live(happenings)
    else:
        SimulatedGroup(engine, group, dice, Habits.draw(dice)).live(happenings, MANY_EVENTS, work=40)
