"""A shard that is driven: its clock, its log in memory, its tickets and ids. Whatever plays with one shard stands on it."""

from collections.abc import Iterable
from typing import Any

from coordinator.core import records
from coordinator.core.kinds.registry import KINDS, kind_of
from coordinator.core.limits import Limits
from coordinator.core.record_types import single_records
from coordinator.core.result import Call, RemoveOffsets, Result
from coordinator.core.shard import Shard
from coordinator.core.topics import Topics
from coordinator.core.verbs import Forget
from protocol.steps import finish_steps
from tests.core import durable

START_MS = 1_700_000_000_000
NEW, GONE = "Empty", "Dead"  # states of groups that were not there, and that are no more
Entry = tuple[bytes, bytes | None, int] | tuple[int, bool]  # a record with its producer, or the end of a transaction


class CountingCall(Call, frozen=True):
    """A call whose ids are short in either form, for scripts to name them."""

    def fresh_uuid(self) -> str:
        return self.fresh_id()


class ShardDriver:
    """Time stands still until `advance`. Subclasses see all that happens in `take`."""

    def __init__(self, limits: Limits, topics: Topics, *, index: int = 0, now_ms: int = START_MS) -> None:
        self.limits, self.topics, self.index, self.now_ms = limits, topics, index, now_ms
        self.shard = self.empty_shard()
        self.log: list[Entry] = []
        self.tickets = self.ids = 0
        self.states: dict[str, str] = {}  # of the groups, as events have told them

    def empty_shard(self) -> Shard:
        return Shard(self.index, self.limits, self.topics)

    def fresh_id(self) -> str:
        self.ids += 1
        return str(self.ids)

    def call(self, version: int, client_id: str | None = "c", client_host: str = "/127.0.0.1") -> Call:
        """Return a call at this moment, with a ticket of its own."""
        self.tickets += 1
        return CountingCall(self.tickets, self.now_ms, version, client_id, client_host, self.fresh_id)

    def describe(self, kind: str, group_id: str, version: int) -> Any:
        """Return what the API of a kind of groups says of a group."""
        call = Call(0, self.now_ms, version, "c", "/127.0.0.1", self.fresh_id)
        return self.shard.describe(KINDS[kind], group_id, call)

    def handle(self, request: Any, call: Call) -> Result[Any]:
        """Hand a request to the shard, and take its result."""
        result = self.shard.handle(request, call)
        self.take(result)
        return result

    def take(self, result: Result[Any]) -> None:
        """Put the records of a result into the log. One of a classic group has the time of its last change, as Kafka's."""
        self.follow(result)
        for record in single_records(result.records):
            if isinstance(record.value, records.GroupMetadataValue):
                assert START_MS <= record.value.current_state_timestamp <= self.now_ms, record
        producer_id = -1 if result.producer is None else result.producer.id
        self.log += [(*records.encode(record), producer_id) for record in single_records(result.records)]
        for effect in result.effects:
            if isinstance(effect, RemoveOffsets):
                self.shard.offsets.hide_group(effect.group_id)
                for results in self.shard.remove_offsets(effect.group_id, effect.at_ms):
                    self.take_all(results)

    def follow(self, result: Result[Any]) -> None:
        """Check that the events alone tell each state that a group comes to, and how it is at the end."""
        for event in result.events:
            before = self.states.get(event.group, NEW)
            assert event.before == before, f"{event.cause}: the group was {before}, not {event.before}"
            self.states[event.group] = event.after
        if result.group is not None and result.events:
            group, last = result.group, result.events[-1]
            assert (last.group, last.type) == (group.group_id, kind_of(group).name)
            assert (last.after, last.members) == (group.state, len(group.members)), f"{last}: {group.state}"
            if last.type != "share":  # whose epoch rises behind what it rises for
                assert last.generation == kind_of(group).count(group)
        elif result.events:
            assert self.states.pop(result.events[-1].group) == GONE and not result.events[-1].members

    def take_all(self, results: Iterable[Result[Any]]) -> None:
        for result in results:
            self.take(result)

    def advance(self, to_ms: int) -> None:
        """Move the clock, from deadline to deadline."""
        while (at_ms := self.shard.next_deadline_ms()) is not None and at_ms <= to_ms:
            self.now_ms = max(at_ms, self.now_ms)
            self.fire()
        self.now_ms = to_ms

    def wait(self, ms: int) -> None:
        """Let so much time pass."""
        self.advance(self.now_ms + ms)

    def fire(self) -> None:
        """Do what is due now."""
        self.take_all(self.shard.fire(self.now_ms))

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        self.log.append((producer_id, commits))
        finish_steps(self.shard.end_transaction(producer_id, commits))

    def set_topics(self, topics: Topics) -> None:
        """From now on these topics exist, and no others."""
        gone = {name: [topic.id] for name, topic in self.topics.items() if topics.id_of(name) != topic.id}
        self.topics = topics
        self.shard.set_topics(topics)
        for results in self.shard.forget_topics(gone, self.now_ms) if gone else ():
            self.take_all(results)

    def compact(self) -> None:
        """Keep the latest record of each key."""
        latest = {entry[0]: at for at, entry in enumerate(self.log)}
        self.log = [entry for at, entry in enumerate(self.log) if latest[entry[0]] == at]

    def rebuild(self) -> None:
        """Forget the shard, and make it anew of its log. All that is durable must be there, and nothing else; also of
        the log as a cleaner leaves it that removes tombstones as well, unless there are transactions in it."""
        old, log = durable.facts(self.shard), self.log
        if all(len(entry) == 3 and entry[2] < 0 for entry in log):
            latest = {entry[0]: at for at, entry in enumerate(log)}
            self.log = [entry for at, entry in enumerate(log) if latest[entry[0]] == at and entry[1] is not None]
            self.replay()
            durable.assert_equal(durable.facts(self.shard), old)
            self.log = log
        self.replay()
        durable.assert_equal(durable.facts(self.shard), old)

    def replay(self) -> None:
        """Make the shard that the log tells of, whatever there was."""
        self.shard = self.empty_shard()
        for entry in self.log:
            if len(entry) == 3:
                key, value, producer_id = entry
                self.shard.replay(records.decode(key, value), producer_id)
            else:
                finish_steps(self.shard.end_transaction(*entry))
        self.note_states()

    def note_states(self) -> None:
        """Take the groups as they are: what follows is told from there."""
        self.states = {group_id: group.state for group_id, group in self.shard.groups.items()}

    def forget_group(self, group_id: str) -> None:
        """Let an operator forget a group, whatever there is of it: nothing is left, in memory or in the log."""
        self.handle(Forget(group_id), self.call(0))
        assert group_id not in self.shard.groups
        assert not [key for key, _ in self.shard.timers.items() if key[1] == group_id]
        self.rebuild()

    def load(self) -> None:
        """Begin to serve what was replayed."""
        self.take_all(self.shard.finish_loading(self.now_ms))
