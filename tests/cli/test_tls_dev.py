"""`muster tls dev`: who can read the keys that it writes, who trusts them, and for whom they are."""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from coordinator.cli import tls
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


def test_a_second_call_makes_new_keys_of_the_same_authority(shell: Shell, tmp_path: Path) -> None:
    """A client that trusts the authority trusts them too."""
    shell(0, str(tmp_path))
    (old,) = read_certificates(tmp_path, "server")
    (authority,) = read_certificates(tmp_path, "ca")
    shell(0, str(tmp_path), "--client", "alice")
    assert read_certificates(tmp_path, "ca") == [authority]
    for name in ("server", "alice"):
        (made,) = read_certificates(tmp_path, name)
        made.verify_directly_issued_by(authority)
        assert made != old
        assert authority.not_valid_after_utc - made.not_valid_after_utc > timedelta(days=8 * 365), (
            "years of further ones"
        )


def test_an_authority_that_has_expired_issues_nothing(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(tls, "AUTHORITY_DAYS", 0)
        shell(0, str(tmp_path))
    assert "ca.pem has expired: remove it and ca.key, and give clients the new one" in shell(1, str(tmp_path))


def test_a_server_is_known_by_the_names_that_are_asked_for_and_as_this_machine(shell: Shell, tmp_path: Path) -> None:
    shell(0, str(tmp_path), "--host", "kafka", "--host", "10.0.0.7")
    (made,) = read_certificates(tmp_path, "server")
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(map(str, names.get_values_for_type(x509.DNSName))) == {"localhost", "kafka"}
    assert set(map(str, names.get_values_for_type(x509.IPAddress))) == {"127.0.0.1", "::1", "10.0.0.7"}


def read_certificates(directory: Path, name: str) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates((directory / f"{name}.pem").read_bytes())
