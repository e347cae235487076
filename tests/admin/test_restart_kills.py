"""A part of two campaigns on every run: the long ones are `python -m tests.admin.restart_kills` and `operation_kills`."""

from pathlib import Path

from tests.admin import operation_kills
from tests.admin.restart_kills import play


def test_a_server_that_is_killed_while_it_restarts_has_one_state(tmp_path: Path) -> None:
    assert play(tmp_path, rounds=3, seed=5).total() == 3


def test_a_server_that_is_killed_in_an_operation_has_done_each_thing_or_not(tmp_path: Path) -> None:
    assert operation_kills.play(tmp_path, rounds=3, seed=6, groups=30).total() == 3
