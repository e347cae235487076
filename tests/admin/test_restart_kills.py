"""A part of the campaign on every run: the long one is `python -m tests.admin.restart_kills`."""

from pathlib import Path

from tests.admin.restart_kills import play


def test_a_server_that_is_killed_while_it_restarts_has_one_state(tmp_path: Path) -> None:
    assert play(tmp_path, rounds=3, seed=5).total() == 3
