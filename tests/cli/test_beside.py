"""A command beside the server, and a server that ends with whoever has started it."""

import argparse
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import trio

from coordinator.cli import Parser
from coordinator.cli.beside import Beside
from coordinator.cli.options import read_options
from coordinator.cli.serve import add_arguments
from coordinator.control.timeline import EVENTS_MAX, GROUPS_MAX, format_timelines
from coordinator.core.events import Cause, Event
from coordinator.events import Ring
from tests.live import WAIT_SECONDS, wait_until

MUSTER = [sys.executable, "-m", "coordinator"]


def run(*words: str, stdin: int = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MUSTER, *words], capture_output=True, text=True, timeout=WAIT_SECONDS, stdin=stdin)


def test_a_command_finds_the_server_and_its_exit_code_is_the_servers(tmp_path: Path) -> None:
    program = """if True:
        import os, socket, sys, urllib.request
        host, _, port = os.environ["BOOTSTRAP_SERVERS"].rpartition(":")
        socket.create_connection((host, int(port))).close()
        assert os.environ["MUSTER"] == os.environ["MUSTER_ADMIN"]
        print(urllib.request.urlopen(os.environ["MUSTER"] + "/v1/state").read().decode(), os.environ["MUSTER_BOOTSTRAP"])
        sys.exit(7)"""
    done = run("serve", "--topic", "orders:2", "--", sys.executable, "-c", program)
    assert (done.returncode, done.stderr.count("muster ready kafka=127.0.0.1:")) == (7, 1), done
    assert done.stdout.startswith('{"topics":{"orders":2}'), "standard output is the command's"
    port = int(done.stdout.rsplit(":", 1)[1])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["--", "/no/such"], 127, "muster serve: cannot run /no/such: No such file or directory\n"),
        (["--"], 2, "muster serve: invalid --: expected a command behind it\n"),
        (["--exit-with-stdin"], 2, "muster serve: invalid --exit-with-stdin: expected standard input to be a pipe\n"),
        (["--", "sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM, ""),
    ],
)
def test_what_goes_wrong_is_a_line_and_an_exit_code(words: list[str], code: int, complaint: str) -> None:
    done = run("serve", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.endswith(complaint)


def test_the_timelines_of_the_groups_follow_a_command_that_fails() -> None:
    """The server that could be asked why is gone by then."""
    program = """if True:
        import os, sys
        from coordinator.client import Client
        from tests.cli.command import classic_member
        with Client.to(os.environ["BOOTSTRAP_SERVERS"], client_id="till") as client:
            classic_member(client, "shop", {"orders": (0,)})
        sys.exit(int(sys.argv[1]))"""
    for code in (0, 3):
        done = run("serve", "--topic", "orders:1", "--", sys.executable, "-c", program, str(code))
        assert done.returncode == code, done.stderr
        _, found, timeline = done.stderr.partition("muster: the timeline of group shop\n#1 ")
        assert bool(found) is bool(code)
        assert ('leader synced: "till"' in timeline) is bool(code)


def test_timelines_that_are_printed_are_bounded() -> None:
    ring = Ring()
    for group in range(3 * GROUPS_MAX):
        for _ in range(2 * EVENTS_MAX if group % 2 else 1):
            event = Event(1_000, f"g{group}", Cause.MEMBER_LEFT, "Stable", "Stable", 3)
            ring.add(event.group, msgspec.json.encode(event))
    lines = list(format_timelines(ring.decode_after(0)))
    headings = [line for line in lines if "the timeline of group" in line]
    assert headings[-1].endswith(f" g{3 * GROUPS_MAX - 1}") and len(headings) == GROUPS_MAX
    assert len(lines) == GROUPS_MAX // 2 * (EVENTS_MAX + 1 + 2)


def test_a_signal_ends_the_command_and_then_the_server() -> None:
    script = "trap 'echo told; exit 3' TERM; echo begun; while :; do sleep 0.05; done"
    with subprocess.Popen([*MUSTER, "serve", "--", "sh", "-c", script], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "begun\n"
        server.terminate()
        assert server.stdout.readline() == "told\n"
        assert server.wait(WAIT_SECONDS) == 3


async def test_a_signal_that_comes_before_the_command_has_begun_is_for_the_command() -> None:
    """All but Ctrl-C, of which a terminal tells the command by itself."""
    beside = Beside(["sleep", "600"], {})
    assert beside.pass_on(signal.SIGINT) and beside.pass_on(signal.SIGTERM)
    assert beside.exit_code is None
    with trio.fail_after(30):
        assert await beside.run() == (128 + signal.SIGTERM, "")
    assert beside.exit_code == 128 + signal.SIGTERM
    assert not beside.pass_on(signal.SIGTERM), "nobody is there any more"


def test_a_command_that_has_not_run_to_its_end_has_not_succeeded() -> None:
    words = [*MUSTER, "serve", "--exit-with-stdin", "--", "sh", "-c", "echo begun; exec sleep 600"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        assert server.stdout.readline() == "begun\n"
        server.stdin.close()
        assert server.wait(WAIT_SECONDS) == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("words", "data_dir", "listen", "admin", "journal"),
    [
        ([], None, "127.0.0.1:0", "127.0.0.1:0", 16 << 20),
        (["--data-dir", "d"], "d", "127.0.0.1:0", "127.0.0.1:0", 16 << 20),
        (["--listen", ":9092", "--admin", "off"], None, ":9092", None, 16 << 20),
        (["--set", "listeners=PLAINTEXT://:1", "--set", "journal.max.bytes=0"], None, ":1", "127.0.0.1:0", 0),
    ],
)
def test_what_is_said_goes_before_what_a_command_implies(
    words: list[str], data_dir: str | None, listen: str, admin: str | None, journal: int
) -> None:
    parser = Parser()
    add_arguments(parser)
    args = parser.parse_args(words)
    args.beside = ["true"]
    options = read_options(args)
    assert (options.data_dir, options.admin, options.config["journal.max.bytes"]) == (data_dir, admin, journal)
    assert options.endpoints[0].bind == listen


def test_a_server_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    """It holds the other end of a pipe, as pytest-muster does, and nobody can catch SIGKILL."""
    ready = tmp_path / "ready.json"
    words = ["serve", "--ephemeral", "--listen", "127.0.0.1:0", "--admin", "off", "--exit-with-stdin"]
    starter = f"""if True:
        import subprocess, time
        child = subprocess.Popen({[*MUSTER, *words, "--ready-file", str(ready)]!r}, stdin=subprocess.PIPE)
        print(child.pid, flush=True)
        time.sleep({WAIT_SECONDS})"""
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        wait_until("the server is ready", ready.exists)
        parent.kill()
        wait_until("the server has ended", lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.parametrize("command", [None, ["true"]])
@pytest.mark.parametrize("given", [(), ("--data-dir", "said"), ("--ephemeral",)])
@pytest.mark.parametrize("is_ephemeral", [None, True, False])
@pytest.mark.parametrize("filed", [None, "filed"])
def test_data_that_somebody_wants_to_keep_is_kept(
    command: list[str] | None, given: tuple[str, ...], is_ephemeral: bool | None, filed: str | None, tmp_path: Path
) -> None:
    """The command line goes before the file; beside a command nothing is kept where nobody says so."""
    file = tmp_path / "muster.toml"
    lines = [f'data-dir = "{filed}"'] * (filed is not None)
    lines += [f"ephemeral = {str(is_ephemeral).lower()}"] * (is_ephemeral is not None)
    file.write_text("\n".join(lines))
    parser = Parser()
    add_arguments(parser)
    args = parser.parse_args(["--config", str(file), *given], argparse.Namespace(beside=command))
    options = read_options(args)
    if given:
        expected = "said" if "said" in given else None
    elif is_ephemeral is not None:
        expected = None if is_ephemeral else filed or "muster-data"
    else:
        expected = filed or (None if command else "muster-data")
    assert options.data_dir == expected
