"""The differences from Kafka that are meant, as docs/differences.md lists them.

A row of its tables that begins with the name of a story is one difference, at one field:

    | `story` | `event 5: b.answer.join_group.is.error_code` | `Kafka's value` | `Muster's value` | why |

The place and both values are those of a difference as the replay finds it. A value is JSON, or a text as it is. Two
objects are a row for each of their fields, which both must have. Where Kafka was silent, Muster's value is its whole
answer without what is blank in it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.conformance.compare import Difference

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"


class Row(NamedTuple):
    """One difference that is meant."""

    story: str
    place: str
    kafka: Any
    here: Any
    why: str

    def covers(self, story: str, found: Difference) -> bool:
        """Whether it is this difference: the same place, and the same two values."""
        place = f"event {found.event}: {found.path}"
        return (story, place, found.kafka, found.here) == (self.story, self.place, self.kafka, self.here)


def rows(text: str) -> list[Row]:
    """The rows of the page, one a field; one without a reason is an error."""
    found: list[Row] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 5:
            story, place, kafka, here, why = cells
            assert why, f"{story}: no reason is given"
            found += by_field(Row(story.strip("`"), place.strip("`"), value(kafka), value(here), why))
    return found


def by_field(row: Row) -> Iterator[Row]:
    """The row itself, or one for each field of its two objects."""
    if not (isinstance(row.kafka, dict) and isinstance(row.here, dict)):
        yield row
        return
    assert row.kafka.keys() == row.here.keys(), f"{row.story}: {row.place}: the two objects have other fields"
    for name in row.kafka:
        yield row._replace(place=f"{row.place}.{name}", kafka=row.kafka[name], here=row.here[name])


def value(cell: str) -> Any:
    """What a cell says: JSON, else the text itself."""
    text = cell.strip("`")
    try:
        return json.loads(text)
    except ValueError:
        return text


LISTED = rows(PAGE.read_text())
