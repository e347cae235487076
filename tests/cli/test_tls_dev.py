"""`muster tls dev`: who can read the keys that it writes."""

import os
from pathlib import Path

import pytest

from tests.commands import Shell, shell_fixture

shell = shell_fixture("tls", "dev")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_nobody_else_can_read_a_private_key(shell: Shell, tmp_path: Path, umask: int) -> None:
    (tmp_path / "server.pem").write_text("an older key")
    (tmp_path / "server.pem").chmod(0o644)
    before = os.umask(umask)
    try:
        shell(0, str(tmp_path), "--client", "alice")
    finally:
        os.umask(before)
    secret = [file for file in tmp_path.iterdir() if b"PRIVATE KEY" in file.read_bytes()]
    assert len(secret) >= 3
    assert {file.name: file.stat().st_mode & 0o077 for file in secret} == {file.name: 0 for file in secret}
