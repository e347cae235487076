"""A damaged log, and what its repair leaves."""

from __future__ import annotations

from storage import layout, repair
from storage.log import Log, LogConfig, scan
from storage.repair import Survey
from tests.storage.crashing_disk import CrashingDisk

DIRECTORY = "data/orders-0"

CONFIG = LogConfig(segment_bytes=600)


def values(log: Log) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for _, records in scan(log) for record in records]


def lost(plan: Survey) -> list[tuple[int, int]]:
    return [(loss.first_offset, loss.end_offset) for loss in plan.losses]


def repaired(disk: CrashingDisk) -> tuple[Survey, Log]:
    found = layout.look(disk, DIRECTORY, is_repair=True)
    plan = repair.survey(disk, DIRECTORY, found)
    before = disk.contents()
    for loss in plan.losses:
        assert loss.first_offset <= loss.end_offset
        assert not loss.size or loss.position + loss.size <= len(before[loss.path]), "the bytes that are lost are there"
    again = repair.survey(disk, DIRECTORY, found)
    assert (plan, before) == (again, disk.contents()), "a survey changes nothing"
    repair.carry_out(disk, DIRECTORY, found, plan)
    assert not repair.survey(disk, DIRECTORY, layout.look(disk, DIRECTORY)).is_needed, "once is enough"
    return plan, Log.open(disk, DIRECTORY, CONFIG)
