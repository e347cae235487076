"""What Spark asks of a reader: filters that are pushed down keep just the rows, and columns just what they may hold."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual, Not
from pyspark.sql.types import LongType, StructField, StructType

from pipeline.decode.layout import TOPIC
from pipeline.errors import UsageError
from pipeline.options import SourceOptions, parse
from pipeline.pushdown import narrow
from pipeline.source import KafkaLog
from pipeline.synth import Writer, commit

Row = tuple[str, int, int]
"""Group, partition of the log, time."""
ROWS: list[Row] = [(group, partition, ts) for group in "abc" for partition in range(3) for ts in range(7)]
GROUP, PARTITION, TIME = 0, 1, 2
COLUMNS = (("group",), ("log_partition",), ("record_ts",))
COMPARISONS: dict[Any, Callable[[int, int], bool]] = {
    EqualTo: lambda a, b: a == b, GreaterThan: lambda a, b: a > b, GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b, LessThanOrEqual: lambda a, b: a <= b,
}  # fmt: skip


def draw(dice: Random) -> tuple[Any, Callable[[Row], bool]]:
    """A filter, and which rows it keeps."""
    match dice.randrange(4):
        case 0:
            compare = dice.choice(list(COMPARISONS))
            bound = dice.randrange(7)
            return compare(COLUMNS[TIME], bound), lambda row: COMPARISONS[compare](row[TIME], bound)
        case 1:
            some = tuple(dice.sample("abcd", dice.randrange(1, 4)))
            return In(COLUMNS[GROUP], some), lambda row: row[GROUP] in some
        case 2:
            numbers = tuple(dice.sample(range(4), dice.randrange(1, 3)))
            return In(COLUMNS[PARTITION], numbers), lambda row: row[PARTITION] in numbers
    column = dice.choice((GROUP, PARTITION))
    value = dice.choice(("abc", range(3))[column])
    return EqualTo(COLUMNS[column], value), lambda row: row[column] == value


def is_read(options: SourceOptions, row: Row) -> bool:
    """What the options say, as the decoder takes them."""
    groups, partitions = options.wanted_groups, options.log_partitions
    since, until = options.since_ms, options.until_ms
    return (
        (groups is None or row[GROUP] in groups)
        and (partitions is None or row[PARTITION] in partitions)
        and (since is None or row[TIME] >= since)
        and (until is None or row[TIME] < until)
    )


@pytest.mark.parametrize("seed", range(5))
def test_all_filters_hold_together_with_the_options(seed: int) -> None:
    dice = Random(seed)
    for _ in range(60):
        given = {"path": "logs"}
        for name, value in (("group", dice.choice("abc")), ("since_ms", dice.randrange(7)), ("until_ms", dice.randrange(7))):  # fmt: skip
            given |= {name: str(value)} if dice.random() < 0.3 else {}
        filters = [draw(dice) for _ in range(dice.randrange(4))]
        options = parse(given)
        not_understood = Not(EqualTo(COLUMNS[GROUP], "a"))
        narrowed = narrow(options, [*(one for one, _ in filters), not_understood])
        wanted = [row for row in ROWS if is_read(options, row) and all(keeps(row) for _, keeps in filters)]
        assert [row for row in ROWS if is_read(narrowed, row)] == wanted, (given, filters)


@pytest.mark.parametrize("tombstones", range(4))
@pytest.mark.parametrize("nullable", [True, False])
def test_a_column_without_nulls_has_none_in_any_row(tombstones: int, nullable: bool, tmp_path: Path) -> None:
    """Spark would read a number where there is none."""
    offsets = [None] * tombstones + [1] * (3 - tombstones)
    records = [commit(("g", "t", number), offset, 1) for number, offset in enumerate(offsets)]
    Writer(tmp_path / f"{TOPIC}-0").append(records)
    columns = StructType([StructField("committed_offset", LongType(), nullable)])
    reader = KafkaLog({"path": str(tmp_path)}).reader(columns)
    (task,) = reader.partitions()
    if tombstones and not nullable:
        with pytest.raises(UsageError, match="invalid column committed_offset NOT NULL"):
            list(reader.read(task))
    else:
        assert [row["committed_offset"] for batch in reader.read(task) for row in batch.to_pylist()] == offsets
