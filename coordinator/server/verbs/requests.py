"""The verbs for requests: the journal, faults, and held requests."""

from collections.abc import Callable, Iterable

from coordinator.control.faults import STEPS, Action, FaultPlan, FaultSpec, Match, Rule
from coordinator.control.inputs import Origin
from coordinator.control.journal import Journal
from coordinator.control.subject import TopicNames
from coordinator.runtime.node import Node
from coordinator.server.frontend import Frontend
from coordinator.server.gate import Gate
from coordinator.server.poller import Poller
from coordinator.server.verbs.refusal import Refusal


class RequestVerbs:
    """The verbs for requests: the journal, faults, hold and release."""

    def __init__(self, node: Callable[[], Node], frontend: Frontend, poller: Poller) -> None:
        self._node = node
        self._frontend = frontend
        self._poller = poller
        self._latest_request = 0  # of the journal of before
        self._gate = Gate(None, FaultPlan(), self.topic_name)
        frontend.set_gate(self._gate)

    @property
    def journal(self) -> Journal:
        """The last requests and responses. Raises Refusal while the journal is off."""
        if self._gate.journal is None:
            sentence = "the journal is off: turn it on by PUT /v1/journal, or the setting journal.max.bytes"
            raise Refusal(sentence, is_conflict=True)
        return self._gate.journal

    @property
    def journal_bytes(self) -> int:
        """The bytes of the journal, 0 while it is off."""
        return 0 if self._gate.journal is None else self._gate.journal.bytes

    def set_journal(self, bytes_max: int) -> None:
        """Keep the last requests and responses from now on, up to `bytes_max`; 0 turns the journal off.

        The numbers continue: one that a test has noted before is not that of a later request.
        """
        if self._gate.journal is not None:
            self._latest_request = self._gate.journal.latest
        self._gate.journal = Journal(bytes_max, self._latest_request) if bytes_max else None
        self._node().world.set_note_input(None)
        self._set_gate()

    def begin_journal(self, origin: Origin) -> None:
        """Begin the journal again, if it is on, with a node that was just opened."""
        journal = self._gate.journal
        if journal is not None:
            journal.begin(origin)
            self._node().world.set_note_input(journal.note_input if journal.origin is not None else None)

    @property
    def faults(self) -> FaultPlan:
        """The faults in force."""
        return self._gate.faults

    def add_fault(self, spec: FaultSpec) -> Rule:
        """Add a fault. Raises SpecError."""
        rule = self._gate.faults.add(spec)
        self._set_gate()
        return rule

    def remove_fault(self, number: int) -> Rule:
        """Remove a fault, and decide the requests that it holds. Raises Refusal."""
        rule = self._gate.faults.remove(number)
        if rule is None:
            raise Refusal(f"there is no fault {number}", is_conflict=True)
        self._poller.perform(lambda _: self._frontend.handler.release(number))
        self._set_gate()
        return rule

    def remove_faults(self) -> None:
        """Remove every fault."""
        self._remove_each(list(self._gate.faults))

    def remove_faults_of(self, is_meant: Callable[[str], bool]) -> None:
        """Remove the faults that name a group or a topic of these names."""
        self._remove_each([rule for rule in self._gate.faults if any(map(is_meant, rule.spec.on.names))])

    def _remove_each(self, rules: Iterable[Rule]) -> list[Rule]:
        """Remove these faults. A scenario may remove one of them first, as its next step has come."""
        return [self.remove_fault(rule.number) for rule in rules if self._gate.faults.get(rule.number) is rule]

    def hold(self, group_id: str, step: str, client: str = "") -> list[Rule]:
        """Park the requests of a group at a step of its protocol, undecided, until `release`."""
        action = Action(hold=True)
        return [
            self.add_fault(FaultSpec(action, Match(api=api, group=group_id, client=client), count=None))
            for api in sorted(STEPS[step])
        ]

    def release(self, group_id: str) -> list[Rule]:
        """Decide all held requests of a group."""
        return self._remove_each([rule for rule in self.faults if rule.spec.do.hold and rule.spec.on.group == group_id])

    def count_held(self, number: int) -> int:
        """Return how many requests a fault holds."""
        return self._gate.count_held(number)

    def keep_out(self, member_ids: Iterable[str]) -> None:
        """Let members whose groups a reset removes join no group any more."""
        self._gate.leftovers.note(member_ids)
        self._set_gate()

    def let_in(self) -> None:
        """Let the members of before a reset join again: a snapshot has brought them back."""
        self._gate.leftovers.clear()
        self._set_gate()

    def _set_gate(self) -> None:
        gate = self._gate
        self._frontend.handler.set_gated(gate.journal is not None or bool(gate.faults) or bool(gate.leftovers))

    def topic_names(self) -> TopicNames:
        """Return what names the topics of this moment by their ids. Another thread may call it."""
        topics = self._node().world.ledger.catalog.topics

        def name_of(topic_id: bytes) -> str | None:
            topic = topics.by_id(topic_id)
            return None if topic is None else topic.name

        return name_of

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic by its id, None if there is no such topic."""
        return self.topic_names()(topic_id)
