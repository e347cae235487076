"""The table of what each API needs, read off the table by which requests are checked."""

from coordinator.runtime.authorization.needs import NEEDS
from docs.protocol_page import table


def needs_table() -> str:
    """Return a row for each API, in the order of the checks."""
    rows = [(api, "; ".join(guard.sentences())) for api, guard in sorted(NEEDS.items())]
    return table(("API", "what it needs, and the error without"), rows)
