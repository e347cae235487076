"""`muster serve` as its operators meet it: the ready line, the ready file, exit codes, the lock, what survives."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator import __version__
from coordinator.cli import Parser, main
from coordinator.cli.options import read_options
from coordinator.cli.serve import add_arguments
from coordinator.client import Client
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.live import Muster

ROOT = Path(__file__).parents[2]


def muster(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    import os

    command = [sys.executable, "-m", "coordinator", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | more)


def test_version() -> None:
    assert muster("--version").stdout == f"muster {__version__}\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["serve", "--listen", "nowhere"], "muster serve: invalid --listen 'nowhere': expected HOST:PORT"),
        (
            ["serve", "--listen", "::1:9092"],
            "muster serve: invalid --listen '::1:9092': expected HOST:PORT; an IPv6 address needs brackets, [::1]:9092",
        ),
        (
            ["serve", "--listen", "a..b:9092"],
            "muster serve: invalid --listen 'a..b:9092': expected HOST:PORT; no host has such a name",
        ),
        (
            ["serve", "--ready-file", "absent/ready.json"],
            "muster serve: invalid --ready-file 'absent/ready.json': expected a file in a directory that can be written to",
        ),
        (
            ["serve", "--ready-file", "/"],
            "muster serve: invalid --ready-file '/': expected a file in a directory that can be written to",
        ),
        (["serve", "--admin", "x:y"], "muster serve: invalid --admin 'x:y': expected HOST:PORT"),
        (
            ["serve", "--listen", "a:1", "--advertise", "b:1", "--advertise", "c:1"],
            "muster serve: invalid --advertise 'b:1,c:1': expected one address, or one for each of the 1 addresses of --listen",
        ),
        (["serve", "--advertise", "x"], "muster serve: invalid --advertise 'x': expected HOST:PORT"),
        (
            ["serve", "--topic", "orders"],
            "muster serve: invalid --topic 'orders': expected NAME:PARTITIONS with 1 to 10000 partitions",
        ),
        (
            ["serve", "--topic", "../up:1"],
            "muster serve: invalid --topic '../up:1': expected a name of 1 to 249 letters, digits, '.', '_' and '-', other than '.' and '..'",
        ),
        (
            ["serve", "--set", "group.max.size=none"],
            "muster serve: invalid group.max.size 'none' (--set): expected a whole number from 1 to 2147483647",
        ),
        (
            ["serve", "--config", "absent.toml"],
            "muster serve: invalid --config absent.toml: cannot read it: No such file or directory",
        ),
        (["serve", "--frobnicate"], "muster serve: unknown option --frobnicate; see muster serve --help"),
        (["serve", "--log-level", "loud"], None),
        (["frobnicate"], None),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(words: list[str], complaint: str | None) -> None:
    done = muster(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert complaint is None or done.stderr.strip() == complaint


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('listen = ["nowhere"]', "invalid listen 'nowhere' (m.toml, line 2): expected HOST:PORT"),
        ("listen = 5", "invalid listen 5 (m.toml, line 2): expected a list of strings"),
        (
            'topic = "orders"',
            "invalid topic 'orders' (m.toml, line 2): expected NAME:PARTITIONS with 1 to 10000 partitions",
        ),
        (
            'log-level = "inf"',
            "invalid log-level 'inf' (m.toml, line 2): expected one of debug, info, warning, error; did you mean info?",
        ),
        ("lisen = 5", "unknown option lisen (m.toml, line 2); did you mean listen?"),
        (
            "[set]\n\ngroup.max.size = 0",
            "invalid group.max.size 0 (m.toml, line 4): expected a whole number from 1 to 2147483647",
        ),
        (
            '[set.group]\n"max.size" = 0',
            "invalid group.max.size 0 (m.toml, line 3): expected a whole number from 1 to 2147483647",
        ),
        (
            "[set]\ngroup.max.siz = 5",
            "unknown setting group.max.siz (m.toml, line 3): did you mean group.max.size or group.consumer.max.size?",
        ),
        ("set = 5", "invalid set (m.toml, line 2): expected a table, [set]"),
        ("listen = [", "invalid m.toml: expected TOML: Invalid value (at end of document)"),
    ],
)
def test_a_bad_value_in_the_file_names_its_line(
    text: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.toml").write_text(f"# a comment\n{text}\n")
    assert main(["serve", "--config", "m.toml"]) == 2
    assert capsys.readouterr().err == f"muster serve: {complaint}\n"


def test_a_bad_value_in_the_environment_names_its_variable() -> None:
    done = muster("serve", KAFKA_GROUP_MAX_SIZE="0")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("muster serve: invalid group.max.size 0 (KAFKA_GROUP_MAX_SIZE): expected ")


def test_an_address_that_is_taken_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        done = muster("serve", "--listen", where, "--data-dir", str(tmp_path / "data"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"muster serve: cannot listen on {where} (--listen): Address already in use\n"


def test_a_data_directory_that_cannot_be_made_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = muster("serve", "--listen", "127.0.0.1:0", "--admin", "off", "--data-dir", str(tmp_path / "file" / "data"))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_a_ready_file_that_cannot_be_written_after_all_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    """The path may be written to when it is checked, and the name is too long for a file beside it."""
    name = tmp_path / ("r" * 255)
    done = muster("serve", "--listen", "127.0.0.1:0", "--admin", "off", "--ephemeral", "--ready-file", str(name))
    assert done.returncode == 1
    assert done.stderr == f"muster serve: cannot write {name} (--ready-file): File name too long\n"


def test_the_ready_line_and_the_ready_file_say_the_same(tmp_path: Path) -> None:
    with Muster(tmp_path) as server:
        line = server.log().splitlines()[0]
        ready = server.ready
        assert line == (
            f"muster ready kafka={ready['kafka']} admin={ready['admin']} data={server.data_dir} after {ready['seconds']:.2f} s"
        )
        assert ready["listeners"] == ready["advertised"] == [ready["kafka"]]
        assert ready["pid"] == server.pid
        assert server.get("/healthz") == "ok\n"
        assert json.loads(server.get("/readyz"))["ready"] is True
        assert json.loads(server.get("/events?group=g&after=1")) == {"latest": 0, "events": []}


def test_the_ready_line_has_all_listeners_and_what_clients_are_told(tmp_path: Path) -> None:
    given = ("--advertise", "in.test:0", "--advertise", "out.test:19092")
    with Muster(tmp_path, "--ephemeral", "--listen", "0.0.0.0:0", *given) as server:
        first, second = server.ready["listeners"]
        told = server.ready["advertised"]
        assert told == [f"in.test:{first.rpartition(':')[2]}", "out.test:19092"]
        for address, expected in ((first, told[0]), (second.replace("0.0.0.0", "127.0.0.1"), told[1])):
            with Client.to(address) as client:
                (broker,) = client.ask(MetadataRequest(topics=None)).brokers
                assert f"{broker.host}:{broker.port}" == expected
        line = server.log().splitlines()[0]
        assert line.startswith(f"muster ready kafka={first},{second} advertised={','.join(told)} admin=")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly_on_a_signal(tmp_path: Path, how: signal.Signals) -> None:
    with Muster(tmp_path) as server, Client.to(server.kafka) as client:
        client.ask(MetadataRequest(topics=None))  # a client that is connected holds nothing up
        assert server.stop(how) == 0


def test_a_second_one_on_the_same_data_is_refused_with_the_first_ones_pid(tmp_path: Path) -> None:
    with Muster(tmp_path) as server:
        done = muster("serve", "--listen", "127.0.0.1:0", "--admin", "off", "--data-dir", str(server.data_dir))
        assert done.returncode == 1
        assert done.stderr == f"muster serve: {server.data_dir} is in use by another muster, pid {server.pid}\n"
        server.kill()
        server.start()  # a dead holder holds nothing


def test_topics_and_the_cluster_id_survive(tmp_path: Path) -> None:
    def seen(server: Muster) -> tuple[str, dict[str, int]]:
        with Client.to(server.kafka) as client:
            answer = client.ask(MetadataRequest(topics=None))
        return answer.cluster_id, {one.name: len(one.partitions) for one in answer.topics if not one.is_internal}

    with Muster(tmp_path, "--topic", "orders:4") as server:
        before = seen(server)
        assert before[1] == {"orders": 4}
        assert len(before[0]) == 22
        assert server.stop() == 0
        server.start()
        assert seen(server) == before


def test_the_number_of_offsets_partitions_stays_what_it_was(tmp_path: Path) -> None:
    """G-031: another number would give the groups other owners."""
    with Muster(tmp_path, "--set", "offsets.topic.num.partitions=3") as server:
        assert json.loads(server.get("/readyz"))["partitions"]["total"] == 3
        server.kill()
        server.options = ("--set", "offsets.topic.num.partitions=50")
        server.start()
        assert json.loads(server.get("/readyz"))["partitions"]["total"] == 3
        assert "offsets.topic.num.partitions" in server.log(), "and it says so"


def test_ephemeral_leaves_no_file(tmp_path: Path) -> None:
    with Muster(tmp_path, "--ephemeral", "--topic", "orders:1") as server:
        assert server.ready["data"] is None
    assert {path.name for path in tmp_path.iterdir()} == {"ready.json", "muster.log"}


def test_options_come_from_a_file_and_the_command_line_goes_first(tmp_path: Path) -> None:
    config = tmp_path / "muster.toml"
    config.write_text('topic = ["filed:2"]\nephemeral = true\nadmin = "127.0.0.1:1"\n[set]\ngroup.max.size = 7\n')
    with Muster(tmp_path, "--config", str(config), "--ephemeral", "--log-format", "json") as server:
        with Client.to(server.kafka) as client:
            names = {one.name for one in client.ask(MetadataRequest(topics=None)).topics}
        assert "filed" in names
        assert server.get("/healthz") == "ok\n", "--admin was given on the command line"


def test_the_file_may_be_named_by_the_environment_and_another_by_the_command_line(tmp_path: Path) -> None:
    named, other = tmp_path / "named.toml", tmp_path / "other.toml"
    named.write_text('topic = ["named:1"]\n[set]\ngroup.max.size = 7\n')
    other.write_text("[set]\ngroup.min.session.timeout.ms = 5\n")
    with (
        Muster(tmp_path, "--ephemeral", environment={"MUSTER_CONFIG": str(named)}) as server,
        Client.to(server.kafka) as client,
    ):
        assert "named" in {one.name for one in client.ask(MetadataRequest(topics=None)).topics}

    def is_set(*words: str, variable: Path | str = named) -> set[str]:
        rows = json.loads(muster("config", "--json", *words, MUSTER_CONFIG=str(variable)).stdout)
        return {row["name"] for row in rows if row["set"]}

    assert is_set() == {"group.max.size"}
    assert is_set("--config", str(other)) == {"group.min.session.timeout.ms"}, "one file, not both"
    assert is_set(variable="") == set()
    absent = muster("serve", MUSTER_CONFIG="absent.toml")
    assert absent.returncode == 2
    assert (
        absent.stderr == "muster serve: invalid MUSTER_CONFIG absent.toml: cannot read it: No such file or directory\n"
    )


@pytest.mark.parametrize(
    ("words", "advertised"),
    [
        ([], "localhost:9092"),
        (["--set", "group.max.size=100"], "localhost:9092"),
        (["--advertise", "kafka.test:9092"], "kafka.test:9092"),
    ],
)
def test_the_image_serves_everybody_and_keeps_its_data_whatever_arguments_are_given(
    words: list[str], advertised: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments of `docker run` take the place of all that CMD says: what must stay is in the file of the image."""
    image = (ROOT / "Dockerfile").read_text()
    assert "COPY deploy/muster.toml /etc/muster.toml\n" in image
    assert "MUSTER_CONFIG=/etc/muster.toml\n" in image
    assert json.loads(image.splitlines()[-1].removeprefix("CMD ")) == ["serve"]
    monkeypatch.setenv("MUSTER_CONFIG", str(ROOT / "deploy" / "muster.toml"))
    parser = Parser()
    add_arguments(parser)
    chosen = read_options(parser.parse_args(words))
    assert (chosen.listen, chosen.admin) == (("0.0.0.0:9092",), "0.0.0.0:8092")
    assert (chosen.data_dir, chosen.advertise) == ("/var/lib/muster", (advertised,))


def test_a_setting_of_kafka_without_effect_is_a_line_and_the_server_starts(tmp_path: Path) -> None:
    with Muster(
        tmp_path, "--ephemeral", "--set", "log.cleaner.threads=2", environment={"KAFKA_LOG_DIRS": "/x"}
    ) as server:
        assert "muster serve: log.cleaner.threads (--set) has no effect: " in server.log()
        assert "muster serve: log.dirs (KAFKA_LOG_DIRS) has no effect: use --data-dir\n" in server.log()


def test_clients_are_told_what_is_advertised(tmp_path: Path) -> None:
    with (
        Muster(tmp_path, "--ephemeral", "--advertise", "kafka.test:19092") as server,
        Client.to(server.kafka) as client,
    ):
        (broker,) = client.ask(MetadataRequest(topics=None)).brokers
        assert (broker.host, broker.port) == ("kafka.test", 19_092)


def test_config_lists_what_the_server_would_run_with(tmp_path: Path) -> None:
    done = muster("config", "--json", "--set", "group.max.size=9", KAFKA_NUM_PARTITIONS="6")
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert (rows["group.max.size"]["value"], rows["group.max.size"]["set"]) == (9, True)
    assert rows["num.partitions"]["value"] == 6
    assert rows["group.initial.rebalance.delay.ms"]["kafka_default"] == 3_000
    text = muster("config").stdout
    assert "group.initial.rebalance.delay.ms = 0 ms" in text
    assert "Kafka's default is 3000 ms; ours differs because tests should not wait for members that never come." in text


def test_old_versions_are_offered_where_they_are_asked_for(tmp_path: Path) -> None:
    with (
        Muster(tmp_path, "--ephemeral", "--topic", "t:1", "--compat", "3.9") as server,
        Client.to(server.kafka) as client,
    ):
        offered = {
            one.api_key: one.min_version for one in client.ask(ApiVersionsRequest("test", "1"), version=3).api_keys
        }
        assert (offered[8], offered[9], offered[1]) == (0, 0, 0)
        old = OffsetCommitRequest(
            "g", topics=(OffsetCommitRequestTopic("t", partitions=(OffsetCommitRequestPartition(),)),)
        )
        assert client.ask(old, version=0).topics[0].partitions[0].error_code == ErrorCode.NONE
