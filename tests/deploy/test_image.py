"""The start scripts of the Kafka modules of Testcontainers, run with the files of the image.

Each module starts the container with a command that waits for a script, writes the script once it knows the ports of
the host, and waits for a line of the log. Here the scripts run in a copy of `deploy/image` with the server of this
environment. With MUSTER_IMAGE_ROOT=DIR, the root file system of a built image, they run in a chroot of it (as root):

    buildah from --name try muster
    mount --bind /proc $(buildah mount try)/proc
    MUSTER_IMAGE_ROOT=$(buildah mount try) pytest -n 0 -s tests/deploy/test_image.py::test_the_start_of_a_module
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from msgspec import Struct

from coordinator.client import Client
from protocol.messages.metadata import MetadataRequest
from tests.deploy.programs import need
from tests.live import WAIT_SECONDS, wait_until
from tests.ports import reserve_ports

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy" / "image"
IMAGE_ROOT = os.environ.get("MUSTER_IMAGE_ROOT")
USER = 10001  # of the image

RAFT = {
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:{public},BROKER://0.0.0.0:{broker},CONTROLLER://0.0.0.0:{controller}",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_NODE_ID": "1",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:{controller}",
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
}
ZOOKEEPER = {
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:{public},BROKER://0.0.0.0:{broker}",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "KAFKA_BROKER_ID": "1",
    "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181",
}
COMMON = {
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
ADVERTISED = "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:{mapped},BROKER://{hostname}:{broker}\n"
FORMAT = "echo 'kafka-storage format --ignore-formatted -t {cluster} -c /etc/kafka/kafka.properties' >> /etc/confluent/docker/configure\n"
NO_ZOOKEEPER = "sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n"
NO_CHECKS = "echo '' > /etc/confluent/docker/ensure\n"
START_ZOOKEEPER = "echo 'clientPort=2181' > zookeeper.properties\nzookeeper-server-start zookeeper.properties &\n"
RUNNING = r".*Transitioning from RECOVERY to RUNNING.*"
STARTED = r".*\[KafkaServer id=\d+\] started.*"


class Module(Struct, frozen=True):
    """How a module of Testcontainers starts Kafka. Ports are filled in."""

    environment: Mapping[str, str]
    script: str
    waits_for: str  # a regular expression, "" for the health check
    path: str = "/tmp/testcontainers_start.sh"
    shell: str = ""  # that runs the script
    has_entrypoint: bool = True  # whether the image's own is left in place


PYTHON = ". /etc/confluent/docker/bash-config\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch\n"
MODULES = {
    "java KafkaContainer, apache/kafka": Module(RAFT, f"#!/bin/bash\n{ADVERTISED}/etc/kafka/docker/run \n", RUNNING),
    "java ConfluentKafkaContainer, cp-kafka": Module(
        RAFT, f"#!/bin/bash\n{ADVERTISED}/etc/confluent/docker/run \n", RUNNING
    ),
    "java KafkaContainer of old, KRaft": Module(
        RAFT | {"KAFKA_BROKER_ID": "1"},
        f"#!/bin/bash\n{ADVERTISED}{NO_CHECKS}{NO_ZOOKEEPER}{FORMAT}/etc/confluent/docker/run \n",
        RUNNING, has_entrypoint=False,
    ),
    "java KafkaContainer of old, ZooKeeper": Module(
        ZOOKEEPER, f"#!/bin/bash\n{ADVERTISED}{NO_CHECKS}{START_ZOOKEEPER}/etc/confluent/docker/run \n", STARTED,
        has_entrypoint=False,
    ),
    "go": Module(
        RAFT | {"KAFKA_BROKER_ID": "1", "KAFKA_REST_BOOTSTRAP_SERVERS": "PLAINTEXT://0.0.0.0:{public}"},
        f"#!/bin/bash\nsource /etc/confluent/docker/bash-config\n{ADVERTISED}{NO_ZOOKEEPER}"
        + FORMAT.replace("{cluster}", '"$(kafka-storage random-uuid)"')
        + f"{NO_CHECKS}/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        RUNNING, path="/usr/sbin/testcontainers_start.sh", shell="bash ", has_entrypoint=False,
    ),
    "node, KRaft": Module(
        RAFT | {"KAFKA_BROKER_ID": "1", "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false"},
        f"#!/bin/bash\n{ADVERTISED}/etc/confluent/docker/run \n", "", has_entrypoint=False,
    ),
    "node, ZooKeeper": Module(
        ZOOKEEPER, f"#!/bin/bash\n{ADVERTISED}{NO_CHECKS}{START_ZOOKEEPER}/etc/confluent/docker/run \n", "",
        has_entrypoint=False,
    ),
    "python, KRaft": Module(
        RAFT | {"KAFKA_BROKER_ID": "1"}, f"#!/bin/bash\n{NO_ZOOKEEPER}{FORMAT}{ADVERTISED}{PYTHON}",
        r".*Kafka Server started.*", path="/tc-start.sh", shell="sh ",
    ),
    "python, ZooKeeper": Module(
        ZOOKEEPER,
        f"#!/bin/bash\n{START_ZOOKEEPER}export KAFKA_ZOOKEEPER_CONNECT='localhost:2181'\n{ADVERTISED}{PYTHON}",
        STARTED, path="/tc-start.sh", shell="sh ",
    ),
}  # fmt: skip
OFTEN = {"java KafkaContainer, apache/kafka", "python, KRaft"}


class Container:
    """The file system of the image, and a program in it. Its ports are this machine's."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self._folder = folder
        self._log = folder / "log"
        self.ports = dict(zip(("public", "broker", "controller", "admin"), ports, strict=True))
        self._process: subprocess.Popen[bytes] | None = None
        if IMAGE_ROOT is None:
            self.root = folder / "root"
            shutil.copytree(FILES, self.root)
            (self.root / "tmp").mkdir()
            (self.root / "usr" / "sbin").mkdir()
            for file in self.root.rglob("*"):
                if file.is_file():
                    file.write_text(self.inside(file.read_text()))
            command = f'#!/bin/sh\nexec "{sys.executable}" -m coordinator "$@"\n'
            (self.root / "usr/local/bin/muster").write_text(command)
            (self.root / "usr/local/bin/muster").chmod(0o755)
            self.home = self.root / "tmp"
        else:
            self.root = Path(IMAGE_ROOT)
            self.home = Path("/var/lib/muster")
            self._kept = {file: file.read_bytes() for file in (self.root / "etc/confluent/docker").iterdir()}
        settings = f'listen = ["0.0.0.0:9092"]\nadmin = "127.0.0.1:{self.ports["admin"]}"\nephemeral = true\n'
        (self.root / "tmp" / "muster.toml").write_text(settings)

    def inside(self, text: str) -> str:
        """A script whose absolute paths lead into the copy."""
        if IMAGE_ROOT is not None:
            return text
        return re.sub(r"(?<![\w}/])/(etc/confluent|etc/kafka|tmp|usr/sbin|tc-start)", rf"{self.root}/\1", text)

    def start(self, command: list[str], environment: Mapping[str, str]) -> None:
        paths = "/opt/muster/bin:/usr/local/bin:/usr/bin:/bin"
        if IMAGE_ROOT is None:
            paths = f"{self.root}/usr/local/bin:{os.environ['PATH']}"
        else:
            command = self._in_image(command)
        config = "/tmp/muster.toml" if IMAGE_ROOT else f"{self.root}/tmp/muster.toml"
        own = {"PATH": paths, "MUSTER_CONFIG": config, "PYTHONUNBUFFERED": "1", "TMPDIR": self.inside("/tmp")}
        filled = {name: value.format(**self.ports) for name, value in environment.items()}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, env=own | filled, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                cwd=None if IMAGE_ROOT else self.home,
            )  # fmt: skip

    def _in_image(self, command: list[str]) -> list[str]:
        """A command in the root and the home of the image, by its user."""
        if IMAGE_ROOT is None:
            return command
        chroot = need("chroot", "coreutils")
        return [
            chroot,
            f"--userspec={USER}:{USER}",
            IMAGE_ROOT,
            "sh",
            "-c",
            f'cd {self.home}; exec "$@"',
            "sh",
            *command,
        ]

    def put(self, path: str, text: str) -> None:
        """Copy a script into the container, as Docker does: at once, as root."""
        file = Path(self.inside(path)) if IMAGE_ROOT is None else self.root / path.lstrip("/")
        beside = file.with_suffix(".new")
        beside.write_text(self.inside(text))
        beside.chmod(0o777)
        beside.rename(file)

    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def run(self, *command: str) -> int:
        """Run a command to its end, and return its exit code."""
        folder = f"{self.root}/usr/local/bin" if IMAGE_ROOT is None else "/usr/local/bin"
        words = self._in_image([f"{folder}/{command[0]}", *command[1:]])
        return subprocess.run(words, timeout=WAIT_SECONDS, stderr=subprocess.DEVNULL).returncode

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    def close(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(WAIT_SECONDS)
        if IMAGE_ROOT is not None:
            for file, content in self._kept.items():
                file.write_bytes(content)
            for name in (
                "tmp/testcontainers_start.sh",
                "usr/sbin/testcontainers_start.sh",
                "tc-start.sh",
                "tmp/muster.toml",
            ):
                (self.root / name).unlink(missing_ok=True)


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    with reserve_ports(0, 0, 0, 0) as ports:
        one = Container(tmp_path, ports)
        yield one
        one.close()


def advertised(port: int) -> tuple[str, int]:
    """The address that a client is told that comes by a port of the container."""
    with Client.to(f"127.0.0.1:{port}") as client:
        broker = client.ask(MetadataRequest(topics=())).brokers[0]
    return broker.host, broker.port


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in OFTEN else pytest.mark.long) for name in MODULES]
)
def test_the_start_of_a_module(name: str, container: Container) -> None:
    module, ports = MODULES[name], container.ports
    wait_for_script = container.inside(f"while [ ! -f {module.path} ]; do sleep 0.1; done; {module.shell}{module.path}")
    entrypoint = [container.inside("/usr/local/bin/muster-entrypoint")] if module.has_entrypoint else []
    if entrypoint and IMAGE_ROOT is None:
        entrypoint = [str(container.root / "usr/local/bin/muster-entrypoint")]
    container.start([*entrypoint, "sh", "-c", wait_for_script], COMMON | dict(module.environment))
    facts = {"mapped": 32_768, "hostname": "c0ffee", "cluster": "4L6g3nShT-eMCtK--X86sw", **ports}
    script = module.script
    for key, value in facts.items():
        script = script.replace(f"{{{key}}}", str(value))
    began = time.monotonic()
    container.put(module.path, script)

    def is_ready() -> bool:
        assert container.process.poll() is None, container.log()
        if module.waits_for:
            return any(re.fullmatch(module.waits_for, line) for line in container.log().splitlines())
        return container.run("muster-healthy", str(ports["admin"])) == 0

    wait_until(f"{name} is ready: {container.log()}", is_ready)
    print(f"{name}: ready {time.monotonic() - began:.2f} s after its script")
    assert advertised(ports["public"]) == ("localhost", 32_768), "a client on the host"
    assert advertised(ports["broker"]) == ("c0ffee", ports["broker"]), "a client in another container"
    with socket.socket() as nobody:
        assert nobody.connect_ex(("127.0.0.1", ports["controller"])) != 0
    assert "Traceback" not in container.log() and "ermission denied" not in container.log(), container.log()


def test_the_health_check_fails_while_nothing_answers(container: Container) -> None:
    assert container.run("muster-healthy", str(container.ports["admin"])) != 0


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["--version"], "muster "),
        (["muster", "--version"], "muster "),
        (["sh", "-c", "echo shell"], "shell"),
        (["/bin/echo", "path"], "path"),
        (["groups", "--help"], "usage: muster groups"),  # though there is a program of this name
    ],
)
def test_what_follows_the_image_is_a_subcommand_or_a_program(
    words: list[str], printed: str, container: Container
) -> None:
    entrypoint = "/usr/local/bin/muster-entrypoint"
    container.start([entrypoint if IMAGE_ROOT else str(container.root) + entrypoint, *words], {})
    assert container.process.wait(WAIT_SECONDS) == 0
    assert container.log().startswith(printed)


def test_the_server_is_the_process_that_docker_stops(container: Container) -> None:
    entrypoint = "/usr/local/bin/muster-entrypoint"
    container.start(
        [entrypoint if IMAGE_ROOT else str(container.root) + entrypoint, "serve", "--listen", f"127.0.0.1:{container.ports['public']}"], {}
    )  # fmt: skip
    wait_until("it is ready", lambda: "muster ready" in container.log())
    container.process.send_signal(signal.SIGTERM)
    assert container.process.wait(WAIT_SECONDS) == 0


def test_the_image_is_made_of_what_is_tested() -> None:
    image = (ROOT / "Dockerfile").read_text("utf-8")
    assert "COPY deploy/image/ /\n" in image
    assert 'ENTRYPOINT ["muster-entrypoint"]' in image
    assert '["muster-healthy"]' in image
    for label in ("title", "description", "licenses"):
        assert f"org.opencontainers.image.{label}=" in image
    programs = [file for file in FILES.rglob("*") if file.is_file() and file.name != "bash-config"]
    assert len(programs) == 10
    for file in programs:
        assert os.access(file, os.X_OK), file
        assert file.read_text("utf-8").startswith(("#!/bin/sh\n", "#!/bin/bash\n"))
