"""Names that are not UTF-8 or too long, tokens that no header can carry, ports that are another program's: one line."""

import http.server
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.cli import main
from coordinator.cli.events import format_event
from tests.cli.command import Command
from tests.live import Muster

NOT_UTF8 = "a\udcff"  # as Python reads the bytes `a\xff` of a command line


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    with Muster(tmp_path_factory.mktemp("strange"), "--ephemeral") as server:
        yield server


@pytest.mark.parametrize("name", [NOT_UTF8, "a" * 40_000], ids=["not UTF-8", "too long"])
@pytest.mark.parametrize("words", [("topics", "describe"), ("groups", "describe"), ("offsets", "show"), ("produce",)])
def test_a_name_that_no_request_can_hold_is_refused_in_one_line(
    words: tuple[str, ...], name: str, muster: Muster, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines, complaint = Command(muster.kafka, capsys)(*words, name)
    assert (code, lines, complaint.count("\n")) == (1, [], 1)
    assert complaint.startswith(f"muster {words[0]}: cannot send this request: ")


def test_the_events_of_a_group_that_is_not_utf8_are_asked_for(
    muster: Muster, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = muster.ready["admin"]
    assert main(["events", NOT_UTF8, "--admin", admin]) == 1  # nothing is known of it
    assert main(["why", NOT_UTF8, "--admin", admin]) == 1
    assert "invalid path" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("why", "--inferred"), ("events", "--since", "1h")])
def test_a_group_that_no_log_can_hold_is_not_looked_for(
    words: tuple[str, ...], muster: Muster, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a" * 32_768, "\u00fc" * 16_384, NOT_UTF8 * 16_384):
        code, lines, complaint = Command(muster.kafka, capsys)(*words, name)
        assert (code, lines) == (1, [])
        assert complaint == f"muster {words[0]}: cannot look for this group: its id has more than 32,767 bytes\n"


def test_a_name_neither_steers_the_terminal_nor_forges_a_line(
    muster: Muster, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line feed, an escape sequence, one of C1, and a change of direction; two wide letters take four columns."""
    command, name = Command(muster.kafka, capsys), "a\nb \x1b[2J\x9b\u202e日本"
    shown = r"a\u000ab \u001b[2J\u009b\u202e日本"
    assert command("topics", "create", "orders")[0] == 0
    assert command("offsets", "set", name, "orders:0=0", "--metadata", name)[1][1].startswith("orders")
    assert command("groups", "list")[1] == [
        "GROUP" + " " * (len(shown) - 1) + "TYPE     STATE  PROTOCOL",
        f"{shown}  classic  Empty  -",
    ]
    assert command("groups", "describe", name)[1][0] == f"{shown}: Empty, classic, 0 members, lag 0"
    assert command("offsets", "show", name)[1][1].endswith(f"  -             {shown}")
    assert command("groups", "describe", f"{name}c")[2] == f"muster groups: no group {shown}c\n"
    assert f"Z  {shown}  group created" in format_event({"at_ms": 0, "group": name, "cause": "group_created"})
    with pytest.raises(SystemExit):
        main(["serve", "a\x1bb", f"--{name}"])
    assert capsys.readouterr().err.startswith("muster serve: unexpected argument 'a\\x1bb'")


def muster_command(words: str, **variables: str) -> tuple[int, str]:
    """Run `muster` as a shell does, with its redirections. Returns the exit code, and what came out of either stream."""
    line = f"exec {sys.executable} -m coordinator {words}"
    ended = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=os.environ | variables, timeout=60)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "words", ["config", "config num.partitions", "", "--help", "serve --ephemeral --listen 127.0.0.1:0 --admin off"]
)
def test_output_that_cannot_be_written_is_a_failure_of_one_line(words: str) -> None:
    name = words.partition(" ")[0].removeprefix("--help")
    complaint = f"{f'muster {name}'.strip()}: cannot write to standard output: No space left on device\n"
    assert muster_command(f"{words} > /dev/full") == (1, complaint)


@pytest.mark.parametrize(
    ("words", "ended"),
    [
        ("config num.partitions >&-", (0, "")),
        ("config absent 2>&-", (2, "")),
        ("decode - <&-", (2, "muster decode: 0 bytes too few for a request: expected 4 at least\n")),
    ],
)
def test_a_stream_may_be_closed(words: str, ended: tuple[int, str]) -> None:
    assert muster_command(words) == ended


def test_a_letter_that_the_terminal_has_not_is_an_escape() -> None:
    code, text = muster_command("config super.users --set super.users=User:größer", PYTHONIOENCODING="ascii")
    assert (code, r"super.users = User:gr\xf6\xdfer" in text) == (0, True), text


@pytest.mark.parametrize("token", ["secret\nsecond line", "sécret→"])
@pytest.mark.parametrize("words", [("events",), ("why", "shop")])
def test_a_token_that_no_header_can_carry_is_refused(
    words: tuple[str, ...], token: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MUSTER_TOKEN", token)
    assert main([*words]) == 2
    complaint = f"muster {words[0]}: invalid MUSTER_TOKEN: expected printable ASCII characters\n"
    assert capsys.readouterr().err == complaint


@pytest.mark.parametrize(
    ("words", "api", "error"),
    [
        (("produce", "there"), "Metadata", "UNKNOWN_SERVER_ERROR"),
        (("consume", "there"), "Metadata", "UNKNOWN_SERVER_ERROR"),
        (("offsets", "set", "g", "there:0=0"), "Metadata", "UNKNOWN_SERVER_ERROR"),
        (("groups", "reset-offsets", "g", "--topic", "there", "--to-latest"), "Metadata", "UNKNOWN_SERVER_ERROR"),
        (("consume", "there", "--group", "g"), "ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID"),
    ],
)
def test_a_broker_that_fails_is_a_failure_of_one_line(
    words: tuple[str, ...], api: str, error: str, muster: Muster, capsys: pytest.CaptureFixture[str]
) -> None:
    muster.steer("POST", "/state", topics={"there": 1})
    muster.steer("POST", "/faults", on={"api": api}, do={"error": error}, count=None)
    try:
        code, _, complaint = Command(muster.kafka, capsys)(*words)
    finally:
        muster.steer("DELETE", "/faults")
    assert (code, complaint.count("\n"), f"({error})" in complaint) == (1, 1, True), complaint


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP instead of Kafka's protocol"),
        (b"\x15\x03\x03\x00\x02\x02\x0a", "speaks TLS instead of Kafka's protocol"),
        (b"", "closed the connection: does it expect TLS or SASL?"),
        (None, "closed the connection: Connection reset by peer: does it expect TLS or SASL?"),
    ],
)
def test_a_port_that_is_not_a_plain_brokers_is_named(
    answer: bytes | None, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def answer_one() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536 if answer is not None else 1)  # what is unread resets the connection
                connection.sendall(answer or b"")

        threading.Thread(target=answer_one).start()
        assert main(["topics", "list", "--bootstrap-server", address]) == 1
    assert capsys.readouterr().err == f"muster topics: {address} {complaint}\n"


@pytest.mark.parametrize("body", [b"[]", b"hello", b"\xff"])
def test_a_port_of_another_program_is_named(body: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request).start()
        address = f"127.0.0.1:{server.server_port}"
        assert main(["events", "--admin", address]) == 1
    assert capsys.readouterr().err == f"muster events: http://{address} is not the admin port of a Muster\n"
