"""The differences from Kafka that are meant, as docs/differences.md lists them.

A row of its tables that begins with the name of a story is one difference:

    | `story` | `event 3: b.answer.describe_groups.is` | Kafka's value | Muster's value | why |

The place is that of a difference as the replay prints it, or the beginning of it.
"""

from pathlib import Path
from typing import NamedTuple

from tests.conformance.compare import Difference

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"


class Row(NamedTuple):
    """One difference that is meant."""

    story: str
    place: str
    why: str

    def covers(self, story: str, found: Difference) -> bool:
        return story == self.story and f"event {found.event}: {found.path}".startswith(self.place)


def rows(text: str) -> list[Row]:
    """The rows of the page; one without a reason is an error."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 5:
            story, place, _, _, why = cells
            assert why, f"{story}: no reason is given"
            found.append(Row(story.strip("`"), place.strip("`"), why))
    return found


LISTED = rows(PAGE.read_text())
