"""Whether a command reads the log of a broker or asks an admin port: whatever is named, and wherever it is named."""

from argparse import Namespace
from itertools import product

import pytest

from coordinator.cli.since import Since, is_about_broker

FLAGS = {
    "bootstrap_server": "h:1", "command_config": "file", "since": Since(), "admin": "http://h:1", "data_dir": "",
}  # fmt: skip


@pytest.mark.parametrize("variables", [*product([False, True], repeat=2)], ids=str)
def test_what_the_command_line_names_counts_and_then_the_admin_port(
    variables: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    has_admin, has_broker = variables
    for name, value, is_set in (("ADMIN", "http://h:1", has_admin), ("BOOTSTRAP", "h:1", has_broker)):
        monkeypatch.setenv(f"MUSTER_{name}", value) if is_set else monkeypatch.delenv(f"MUSTER_{name}", raising=False)
    for given in product([False, True], repeat=len(FLAGS)):
        named = {name for name, is_given in zip(FLAGS, given, strict=True) if is_given}
        found = is_about_broker(Namespace(**{name: FLAGS[name] if name in named else None for name in FLAGS}))
        if named & {"bootstrap_server", "command_config", "since"}:
            assert found
        elif named:
            assert not found
        else:
            assert found == (has_broker and not has_admin)
