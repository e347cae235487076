"""Tables in a form that can be compared."""

from pathlib import Path
from typing import Any

from pipeline.tables import groups
from pipeline.tables.commits import latest_offsets, offset_commits
from tests.pipeline.histories import Offsets, States
from tests.pipeline.sources import load


def of_tables(spark: Any, logs: Path) -> tuple[Offsets, States]:
    """The same by Spark."""
    commits = offset_commits(load(spark, logs), load(spark, logs, table="batches"))
    records = load(spark, logs, table="group_records")
    latest = latest_offsets(commits, 0)
    rows = latest.collect()
    state = groups.group_state(groups.group_metadata(records), groups.new_group_records(records), latest).collect()
    return (
        {(row.group, row.topic, row.partition): row.committed_offset for row in rows},
        {row.group: (row.type, row.generation, row.members) for row in state},
    )
