"""A command that was told no address says how to tell it one, where nothing listens at the default."""

import pytest

from coordinator.cli import admin, cluster, main


def test_what_listens_nowhere_is_told_with_the_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("MUSTER_ADMIN", "MUSTER_BOOTSTRAP"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(admin, "ADMIN_DEFAULT", "127.0.0.1:1")
    monkeypatch.setattr(cluster, "BOOTSTRAP_DEFAULT", ("127.0.0.1:1",))
    assert main(["events"]) == 1
    assert capsys.readouterr().err.endswith(": Connection refused (the admin port: give --admin or MUSTER_ADMIN)\n")
    assert main(["topics", "list"]) == 1
    assert capsys.readouterr().err.endswith(": Connection refused (give --bootstrap-server or MUSTER_BOOTSTRAP)\n")
    assert main(["topics", "list", "--bootstrap-server", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.endswith(": Connection refused\n"), "whoever gave it knows"
