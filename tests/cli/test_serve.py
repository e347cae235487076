"""`muster serve` as its operators meet it: the ready line, the ready file, exit codes, the lock, what survives."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.cli import Parser
from coordinator.cli.listeners import Endpoint
from coordinator.cli.options import read_options
from coordinator.cli.serve import add_arguments
from coordinator.cli.start import check_data_dir
from coordinator.client import Client, ClientError
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.live import Muster, wait_until
from tests.requests import fetch_offsets
from tests.storage.small_disk import SITECUSTOMIZE

ROOT = Path(__file__).parents[2]


def muster(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    import os

    command = [sys.executable, "-m", "coordinator", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | more)


def test_a_start_imports_nothing_that_a_plain_server_can_do_without() -> None:
    rare = [
        "coordinator.admin.control", "coordinator.control.faults", "coordinator.control.journal",
        "coordinator.dataplane.administration", "coordinator.runtime.authorization", "coordinator.runtime.security",
        "backports.zstd", "coordinator.server.operator", "coordinator.server.sasl.listener", "coordinator.server.tls", "cramjam", "lz4",
        "encodings.idna", "h11", "importlib.metadata", "prometheus_client", "re2", "storage.repair", "tomllib",
    ]  # fmt: skip
    program = f"""if True:
        import os, sys
        from coordinator.cli import main, serving
        serving.say_ready = lambda *arguments: (print(*[name for name in {rare} if name in sys.modules]), os._exit(0))
        main(["serve", "--ephemeral", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])"""
    done = subprocess.run([sys.executable, "-uc", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "\n", done


@pytest.mark.parametrize("name", ["absent/ready.json", "/"])
def test_a_ready_file_that_cannot_be_is_one_line_and_exit_code_2(name: str) -> None:
    done = muster("serve", "--ready-file", name)
    assert (done.returncode, done.stdout) == (2, "")
    expected = "expected a file in a directory that can be written to"
    assert done.stderr == f"muster serve: invalid --ready-file {name!r}: {expected}\n"


def test_an_address_that_is_taken_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        done = muster("serve", "--listen", where, "--data-dir", str(tmp_path / "data"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"muster serve: cannot listen on {where} (--listen): Address already in use\n"


@pytest.mark.parametrize("name", ["file", "file/data", "link"])
def test_a_data_directory_that_is_none_is_one_line_and_exit_code_2(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("nowhere")
    place = str(tmp_path / name)
    done = muster("serve", "--listen", "127.0.0.1:0", "--admin", "off", "--data-dir", place)
    assert (done.returncode, done.stdout) == (2, "")
    expected = "expected a directory that can be written to, or made"
    assert done.stderr == f"muster serve: invalid --data-dir {place!r}: {expected}\n"


def test_a_directory_that_is_made_may_be_deep(tmp_path: Path) -> None:
    check_data_dir(str(tmp_path / "a" / "b" / "c"))
    check_data_dir(".")
    check_data_dir("new/data")


def test_a_ready_file_that_cannot_be_written_after_all_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    """The path may be written to when it is checked, and the name is too long for a file beside it."""
    name = tmp_path / ("r" * 255)
    done = muster("serve", "--listen", "127.0.0.1:0", "--admin", "off", "--ephemeral", "--ready-file", str(name))
    assert done.returncode == 1
    assert done.stderr == f"muster serve: cannot write {name} (--ready-file): File name too long\n"


def test_a_start_removes_the_ready_file_of_an_earlier_run(tmp_path: Path) -> None:
    """A script that waits for the file must not find the old address. The start fails later, so it writes no new one."""
    catalog, ready = tmp_path / "data" / "__muster_catalog-0", tmp_path / "ready.json"
    catalog.mkdir(parents=True)
    (catalog / "00000000000000000000.log").write_bytes(b"")
    (catalog / "muster.checkpoint").write_text("unreadable")
    ready.write_text("{}")
    where = ("--data-dir", str(tmp_path / "data"), "--ready-file", str(ready))
    done = muster("serve", "--listen", "127.0.0.1:0", "--admin", "off", *where)
    assert done.returncode == 1 and "muster.checkpoint" in done.stderr, done.stderr
    assert not ready.exists()


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


COUNT_SYNCS = """
import os

def counting(sync):
    def count(descriptor):
        sync(descriptor)
        with open({path!r}, "a") as file:
            file.write(os.readlink(f"/proc/self/fd/{{descriptor}}") + "\\n")
    return count

os.fsync, os.fdatasync = counting(os.fsync), counting(os.fdatasync)
"""


def commit(client: Client, offset: int, *, partitions: int = 1, metadata: str = "") -> ErrorCode:
    """Commit for the first partitions of the topic `t`; the worst of their errors."""
    each = tuple(
        OffsetCommitRequestPartition(number, offset, committed_metadata=metadata) for number in range(partitions)
    )
    answer = client.ask(OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("t", partitions=each),)), version=8)
    return max(ErrorCode(one.error_code) for one in answer.topics[0].partitions)


def customized(tmp_path: Path, module: str) -> dict[str, str]:
    """The environment of a server that begins with this module."""
    (tmp_path / "sitecustomize.py").write_text(module)
    return {"PYTHONPATH": f"{tmp_path}:{ROOT}"}


@pytest.mark.parametrize(("options", "is_synced"), [(("--fsync",), True), ((), False)])
def test_with_fsync_a_commit_is_on_the_disk_before_its_answer(
    tmp_path: Path, options: tuple[str, ...], is_synced: bool
) -> None:
    syncs = tmp_path / "syncs"
    environment = customized(tmp_path, COUNT_SYNCS.format(path=str(syncs)))
    one_log = ("--topic", "t:1", "--set", "offsets.topic.num.partitions=1")
    with Muster(tmp_path, *one_log, *options, environment=environment) as server, Client.to(server.kafka) as client:
        assert commit(client, 1) == ErrorCode.NONE  # which makes the log
        made = syncs_of_log(syncs)
        for offset in range(1, 6):
            assert commit(client, offset) == ErrorCode.NONE
            assert (syncs_of_log(syncs) >= made + offset) if is_synced else (syncs_of_log(syncs) == made)


def syncs_of_log(syncs: Path) -> int:
    """How often the log of the one offsets partition was synced so far."""
    paths = syncs.read_text().splitlines()
    return sum("__consumer_offsets-0" in path and path.endswith(".log") for path in paths)


def test_the_server_compacts_its_logs(tmp_path: Path) -> None:
    options = ("--topic", "t:200", "--set", "offsets.topic.num.partitions=1")
    options += ("--set", "offsets.topic.min.dirty.bytes=1048576")
    with Muster(tmp_path, *options) as server, Client.to(server.kafka) as client:
        for offset in (1, 2):
            assert commit(client, offset, partitions=200, metadata="x" * 4000) == ErrorCode.NONE
        wait_until("a compaction", lambda: "compacted" in server.log())


def test_a_full_disk_ends_the_server_and_the_next_start_has_the_reserve_and_all_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    environment = customized(tmp_path, SITECUSTOMIZE.format(directory=str(data), bytes_max=3 << 20))
    options = ("--topic", "t:100", "--set", "offsets.topic.num.partitions=1")
    with Muster(tmp_path, *options, environment=environment, may_fail=True) as server:
        wait_until("the reserve", (data / "muster.reserve").exists)
        acknowledged = 0
        with Client.to(server.kafka) as client, contextlib.suppress(ClientError):
            while acknowledged < 100:
                assert commit(client, acknowledged + 1, partitions=100, metadata="x" * 4000) == ErrorCode.NONE
                acknowledged += 1
        wait_until("the end of the server", lambda: server.exit_code is not None)
        assert server.exit_code == 1
        assert re.search(
            r"^muster serve: append to .*: No space left on device \(ENOSPC\)$", server.log(), re.MULTILINE
        )
        assert "Traceback" not in server.log()
        assert acknowledged >= 2
        assert not (data / "muster.reserve").exists()
        server.environment = {}
        server.start()
        with Client.to(server.kafka) as client:
            (group,) = client.ask(fetch_offsets("g"), version=8).groups
        offsets = {one.committed_offset for one in group.topics[0].partitions}
        assert offsets in ({acknowledged}, {acknowledged + 1}), "what was on its way is there as a whole or not at all"


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


@pytest.mark.rule("G-031")
def test_the_number_of_offsets_partitions_stays_what_it_was(tmp_path: Path) -> None:
    """Another number would give the groups other owners."""
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
    assert (chosen.data_dir, chosen.admin) == ("/var/lib/muster", "0.0.0.0:8092")
    assert chosen.endpoints == (Endpoint("PLAINTEXT", "PLAINTEXT", "0.0.0.0:9092", advertised),)


def test_a_setting_of_kafka_without_effect_is_a_line_and_the_server_starts(tmp_path: Path) -> None:
    with Muster(
        tmp_path, "--ephemeral", "--set", "log.cleaner.threads=2", environment={"KAFKA_LOG_DIRS": "/x"}
    ) as server:
        assert "muster serve: log.cleaner.threads (--set) has no effect: " in server.log()
        assert "muster serve: log.dirs (KAFKA_LOG_DIRS) has no effect: use --data-dir\n" in server.log()


def test_each_listener_gives_its_clients_the_address_that_they_can_reach(tmp_path: Path) -> None:
    """As a composition of containers is configured: by variables, for the host and for the containers' network."""
    environment = {
        "KAFKA_LISTENERS": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "KAFKA_ADVERTISED_LISTENERS": "INSIDE://kafka:9092,OUTSIDE://localhost:19092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_NODE_ID": "7",
    }
    with Muster(tmp_path, "--ephemeral", has_listen=False, environment=environment) as server:
        assert server.ready["names"] == ["INSIDE", "OUTSIDE"]
        assert server.ready["advertised"] == ["kafka:9092", "localhost:19092"]
        assert "muster serve: listener CONTROLLER is not bound: Muster has no controller to reach\n" in server.log()
        for address, expected in zip(server.ready["listeners"], server.ready["advertised"], strict=True):
            host, port = expected.split(":")
            with Client.to(address) as client:
                metadata = client.ask(MetadataRequest(topics=None))
                cluster = client.ask(DescribeClusterRequest())
                found = client.ask(FindCoordinatorRequest(coordinator_keys=("g",))).coordinators[0]
                assert [(one.node_id, one.host, one.port) for one in metadata.brokers] == [(7, host, int(port))]
                assert [(one.broker_id, one.host, one.port) for one in cluster.brokers] == [(7, host, int(port))]
                assert (found.node_id, found.host, found.port) == (7, host, int(port))
                assert {p.leader_id for topic in metadata.topics for p in topic.partitions} <= {7}
                broker = DescribeConfigsRequestResource(4, "7", ("listeners", "advertised.listeners", "node.id"))
                (result,) = client.ask(DescribeConfigsRequest((broker,))).results
                assert {one.name: one.value for one in result.configs} == {
                    "listeners": ",".join(f"{name}://{where}" for name, where in
                                          zip(server.ready["names"], server.ready["listeners"], strict=True)),
                    "advertised.listeners": environment["KAFKA_ADVERTISED_LISTENERS"],
                    "node.id": "7",
                }  # fmt: skip


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


def test_a_listener_into_which_nobody_can_get_says_so(tmp_path: Path) -> None:
    listener = ("--ephemeral", "--listen", "SASL_PLAINTEXT://127.0.0.1:0")
    said = 'message="nobody can authenticate: there is no user, see sasl.users.file" listener=SASL_PLAINTEXT'
    with Muster(tmp_path, *listener, has_listen=False) as server:
        wait_until("it says so", lambda: said in server.log())
    users = tmp_path / "users.txt"
    users.write_text("a:b\n")
    (tmp_path / "with").mkdir()
    with Muster(tmp_path / "with", *listener, "--set", f"sasl.users.file={users}", has_listen=False) as server:
        assert server.stop() == 0
        assert said not in server.log()
