"""What watches the server in all tests with real clients: that it fails is seen, though nobody asks."""

from pathlib import Path

import pytest

from tests.live import Muster

ERROR = 'at=2026-11-21T12:00:00.123Z level=error log=muster message="a request could not be decided"'
JSON_ERROR = '{"at": "2026-11-21T12:00:00.123Z", "level": "error", "log": "muster", "message": "no"}'


def ends_by_itself(server: Muster) -> None:
    assert server._process is not None
    server._process.terminate()
    server._process.wait(30)


def logs(server: Muster, line: str) -> None:
    with (server.folder / "muster.log").open("a") as log:
        log.write(f"{line}\n")


def test_a_server_that_ended_by_itself_fails_the_test(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ended by itself with 0"), Muster(tmp_path, "--ephemeral") as server:
        ends_by_itself(server)


def test_a_server_that_ended_before_it_is_killed_fails_the_test(tmp_path: Path) -> None:
    with Muster(tmp_path, "--ephemeral", may_fail=True) as server:
        ends_by_itself(server)
        server.may_fail = False
        with pytest.raises(AssertionError, match="had ended by itself"):
            server.kill()
        server.may_fail = True


@pytest.mark.parametrize("line", [ERROR, JSON_ERROR, "Traceback (most recent call last):"])
def test_an_error_in_the_log_fails_the_test(tmp_path: Path, line: str) -> None:
    with pytest.raises(AssertionError, match="has logged errors"), Muster(tmp_path, "--ephemeral") as server:
        logs(server, line)


def test_what_a_test_does_itself_does_not(tmp_path: Path) -> None:
    with Muster(tmp_path, "--ephemeral") as server:
        logs(server, ERROR.replace("level=error", "level=warning") + ' reason="level=error "')
        server.stop()
    with Muster(tmp_path, "--ephemeral", may_fail=True) as server:
        logs(server, ERROR)
        ends_by_itself(server)
