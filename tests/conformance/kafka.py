"""A real Apache Kafka for a while: one KRaft node on loopback, from Maven's jars.

    with kafka.running({"group.max.size": "2"}) as port: ...

Where a server has users there is a second listener, which authenticates them by SASL, and by TLS if the settings name a
keystore; their passwords are their names.
Needs Java 17 and Maven. `MUSTER_KAFKA_VERSION` names another version than 4.3.1. The jars go once into
`MUSTER_KAFKA_JARS`, else `~/.cache/muster/kafka-VERSION`. The node's data is in a temporary directory; it is stopped by
its pid, and nothing of it stays.
"""

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.conformance.client import Pump
from tests.conformance.servers import MECHANISMS, has_users
from tests.ports import reserve_ports

VERSION = os.environ.get("MUSTER_KAFKA_VERSION", "4.3.1")
HEAP = "512M"
START_S = 180  # a busy machine takes a minute for three of them
STOP_S = 20
LOG4J = "log4j.rootLogger=INFO, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\nlog4j.appender.out.layout=org.apache.log4j.SimpleLayout\n"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""


def jars() -> Path:
    """The directory of Kafka's jars, filled by Maven when it is not there yet."""
    named = os.environ.get("MUSTER_KAFKA_JARS")
    directory = Path(named) if named else Path.home() / ".cache" / "muster" / f"kafka-{VERSION}"
    if not all((directory / f"{name}-{VERSION}.jar").exists() for name in ("kafka_2.13", "kafka-tools")):
        with tempfile.TemporaryDirectory() as build:
            pom = Path(build) / "pom.xml"
            pom.write_text(POM.format(version=VERSION))
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={directory}"]
            subprocess.run(["mvn", "-q", "-f", str(pom), *goal], check=True, timeout=600)
    return directory


def properties(directory: Path, port: int, controller: int, settings: Mapping[str, str]) -> str:
    """The text of server.properties."""
    base = {
        "process.roles": "broker,controller",
        "node.id": "0",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"0@127.0.0.1:{controller}",
        "log.dirs": str(directory / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }
    return "".join(f"{name}={value}\n" for name, value in {**base, **settings}.items())


def listener_of_users(
    port: int, controller: int, users_port: int, users: Iterable[str], protocol: str = "SASL_PLAINTEXT"
) -> dict[str, str]:
    """The settings of a second listener, for users."""
    name = f"listener.name.{protocol.lower()}"
    known = "".join(f' user_{user}="{user}"' for user in users)
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},{protocol}://127.0.0.1:{users_port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},{protocol}://127.0.0.1:{users_port}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{protocol}:{protocol},CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        MECHANISMS: "PLAIN",
        f"{name}.plain.sasl.jaas.config": f"{plain} required{known};",
        f"{name}.scram-sha-256.sasl.jaas.config": f"{scram} required;",
        f"{name}.scram-sha-512.sasl.jaas.config": f"{scram} required;",
    }


def java(*words: str) -> list[str]:
    return ["java", f"-Xms{HEAP}", f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-cp", f"{jars()}/*", *words]


class Broker:
    """A process of Kafka, which may be stopped and started again on its files."""

    def __init__(self, directory: Path, port: int, users_port: int | None = None) -> None:
        self.directory, self.port, self.users_port = directory, port, users_port
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until the broker listens."""
        self.launch()
        self.await_port()

    def launch(self) -> None:
        """Start."""
        with (self.directory / "out.log").open("ab") as log:
            logs = f"-Dlog4j.configuration=file:{self.directory / 'log4j.properties'}"  # of versions before 4
            self._process = subprocess.Popen(
                java(logs, "kafka.Kafka", str(self.directory / "server.properties")), stdout=log, stderr=log
            )

    def await_port(self) -> None:
        """Wait until the broker listens."""
        assert self._process is not None, "it was started"
        await_port(self.port, self._process)

    def kill(self) -> None:
        """End the process as a crash would."""
        assert self._process is not None, "it was started"
        self._process.kill()
        self._process.wait(STOP_S)

    def stop(self) -> None:
        """Stop as on SIGTERM."""
        if self._process is not None:
            stop(self._process)

    def restart(self) -> None:
        """Stop, and start again."""
        self.stop()
        self.start()


class Connections(Pump):
    """The connections of one story to a broker that the story may restart."""

    def __init__(self, broker: Broker) -> None:
        super().__init__("127.0.0.1", broker.port, broker.users_port)
        self._broker = broker

    def restart(self) -> None:
        self._broker.restart()


@contextlib.contextmanager
def running(settings: Mapping[str, str]) -> Iterator[int]:
    """The port of a fresh Kafka with these settings, stopped afterwards."""
    with broker(settings) as one:
        yield one.port


@contextlib.contextmanager
def broker(settings: Mapping[str, str], users: Iterable[str] = ()) -> Iterator[Broker]:
    """A fresh Kafka with these settings, stopped afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="muster-kafka-") as home,
        reserve_ports(0, 0, 0) as (port, controller, third),
    ):
        directory, users_port = Path(home), third if has_users(settings) else None
        if users_port is not None:
            protocol = "SASL_SSL" if "ssl.keystore.location" in settings else "SASL_PLAINTEXT"
            settings = {**listener_of_users(port, controller, users_port, users, protocol), **settings}
        prepare(directory, port, controller, settings)
        one = Broker(directory, port, users_port)
        try:
            one.start()
            yield one
        finally:
            one.stop()


@contextlib.contextmanager
def cluster(settings: Mapping[str, str], nodes: int = 3) -> Iterator[list[Broker]]:
    """Fresh nodes of Kafka that are one cluster, each a broker and a controller, stopped afterwards."""
    with tempfile.TemporaryDirectory(prefix="muster-kafka-") as home, reserve_ports(*[0] * 2 * nodes) as ports:
        of_brokers, of_controllers = ports[:nodes], ports[nodes:]
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in enumerate(of_controllers))
        brokers = []
        for node, (port, controller) in enumerate(zip(of_brokers, of_controllers, strict=True)):
            (directory := Path(home, str(node))).mkdir()
            own = {"node.id": str(node), "controller.quorum.voters": voters}
            prepare(directory, port, controller, {**settings, **own})
            brokers.append(Broker(directory, port))
        try:
            for one in brokers:
                one.launch()
            for one in brokers:
                one.await_port()
            yield brokers
        finally:
            for one in brokers:
                one.stop()


def prepare(directory: Path, port: int, controller: int, settings: Mapping[str, str]) -> None:
    """Write a node's settings, and format its storage."""
    conf = directory / "server.properties"
    conf.write_text(properties(directory, port, controller, settings))
    (directory / "log4j.properties").write_text(LOG4J)
    form = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(conf)]
    subprocess.run(java(*form), check=True, timeout=START_S, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Ask it to end, and end it if it does not."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_S)


def await_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until something listens there, or say that the process has died."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"Kafka ended with {process.returncode} before it listened")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"Kafka did not listen on port {port} within {START_S} s")
