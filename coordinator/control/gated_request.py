"""A request between its arrival and its response."""

from typing import Final

from msgspec import Struct

from coordinator.control.faults import Action, Rule
from coordinator.control.journal import Entry

NO_ACTION: Final = Action()


class GatedRequest(Struct, gc=False):
    """A request between its arrival and its response: its entry in the journal, and the fault that it meets."""

    entry: Entry | None
    rule: Rule | None = None
    is_delayed: bool = False  # its response waits, or has waited

    @property
    def action(self) -> Action:
        return NO_ACTION if self.rule is None else self.rule.spec.do
