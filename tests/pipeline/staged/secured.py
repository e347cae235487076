"""Read the log of a cluster with TLS, SASL and ACLs, and look for its passwords in whatever is written or printed.

Three users: `reader` may read `__consumer_offsets` and describe groups and topics, `viewer` may only describe them, and
`guest` may nothing. What each command tells `reader` is compared with what it tells the cluster's administrator by a
listener without passwords. Wrong passwords, lacking rights, and certificates that are not trusted must be told in one
line each. The passwords are made for this run, so that to find one anywhere is to have found where it was written.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from pipeline.decode.layout import TOPIC
from pipeline.session import Settings, session
from tests.conformance.kafka import Broker
from tests.pipeline.staged.follower import make_topic_of_groups
from tests.pipeline.staged.stage import Stage
from tests.server.certificates import certificates

PASSWORDS = {user: f"pw-{token_hex(12)}" for user in ("reader", "viewer", "guest")}
WRONG = f"pw-{token_hex(12)}"
MECHANISMS = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-512": "scram.ScramLoginModule"}
JAAS = 'org.apache.kafka.common.security.{} required username="{}" password="{}";'
SETTINGS_FILE = ".properties"
PATIENCE_S = 600
PASSING = ("ago", "lag_per_s")  # what is another the next time
ANY = "*"
Ended = subprocess.CompletedProcess[str]
MAY: Mapping[str, tuple[tuple[ResourceType, str, AclOperation], ...]] = {
    "reader": (
        (ResourceType.TOPIC, TOPIC, AclOperation.READ),
        (ResourceType.TOPIC, ANY, AclOperation.DESCRIBE),
        (ResourceType.GROUP, ANY, AclOperation.DESCRIBE),
    ),
    "viewer": (
        (ResourceType.TOPIC, ANY, AclOperation.DESCRIBE),
        (ResourceType.GROUP, ANY, AclOperation.DESCRIBE),
    ),
}
GRANT = "this user may not read the topic: grant it READ and DESCRIBE on it (TOPIC_AUTHORIZATION_FAILED)"
REFUSALS = (
    # user, password, trust, what one line must say
    ("reader", WRONG, "ca.pem", "cannot authenticate: SASL_AUTHENTICATION_FAILED"),
    ("viewer", PASSWORDS["viewer"], "ca.pem", GRANT),
    ("guest", PASSWORDS["guest"], "ca.pem", GRANT),
    ("reader", PASSWORDS["reader"], "other/ca.pem", "its certificate is not trusted"),
)


def settings() -> dict[str, str]:
    """Return the broker's settings: an authorizer, and users on a listener of TLS."""
    known = "".join(f' user_{user}="{password}"' for user, password in PASSWORDS.items())
    return {
        "offsets.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates() / "server.pem"),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required{known};"
        ),
    }


def check(broker: Broker) -> int:
    """Run the commands, print what was compared, and return how much was wrong."""
    open_address, address = f"127.0.0.1:{broker.port}", f"127.0.0.1:{broker.users_port}"
    make_users(open_address)
    make_topic_of_groups(open_address)
    group, wrong, said = make_history(broker), 0, dict[str, str]()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        for mechanism in MECHANISMS:
            file = write_config(home, mechanism, "reader", PASSWORDS["reader"])
            openly = commands(group, open_address, home / f"open-{mechanism}")
            for words, open_words in zip(commands(group, address, home / mechanism), openly, strict=True):
                told, told_openly = run([*words, "--command-config", str(file)]), run(open_words)
                said[f"{mechanism} {words}"] = told.stdout + told.stderr
                is_same = told.returncode == 0 and facts(words, told.stdout) == facts(words, told_openly.stdout) != []
                wrong += not is_same
                print(f"  {mechanism}: {name_of(words)}: {'the same' if is_same else f'OTHERWISE: {told}'}", flush=True)
            for user, password, trust, expected in REFUSALS:
                file = write_config(home, mechanism, user, password, trust)
                for words in commands(group, address, home / "refused"):
                    told = run([*words, "--command-config", str(file)])
                    said[f"{mechanism} {user} {words}"] = told.stdout + told.stderr
                    if not is_one_line(words, told, expected):
                        wrong += 1
                        print(f"  {mechanism}: {user}: {name_of(words)}: expected {expected}, OTHERWISE: {told}")
                print(f"  {mechanism}: {user}: all say in one line: {expected}", flush=True)
        said |= read_by_spark(home, address, write_config(home, "SCRAM-SHA-512", "reader", PASSWORDS["reader"]))
        places = dict(read_all(home)) | {place: text.encode() for place, text in said.items()}
    for what, words in (("the cluster's address", [address]), ("a password", [*PASSWORDS.values(), WRONG])):
        found = [place for place, data in places.items() if any(one.encode() in data for one in words)]
        print(f"  {what}: in {len(found)} of {len(places)} files, plans and outputs", flush=True)
        wrong += len(found) if words[0] != address else not found
    print(f"  {wrong} differences", flush=True)
    return wrong


def make_users(address: str) -> None:
    """Make the users known to SCRAM, and say what they may do; PLAIN knows them by the broker's settings."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    credentials: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORDS[user].encode()
        )
        for user in PASSWORDS
    ]
    rights = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        for user, rights in MAY.items()
        for kind, name, operation in rights
    ]
    for future in (*admin.alter_user_scram_credentials(credentials).values(), *admin.create_acls(rights).values()):
        future.result(30)


def make_history(broker: Broker) -> str:
    """Let members of a group come and go, and commit; return its id."""
    group = Stage(broker, "secured")
    try:
        with group.expect("join", "join"):
            group.start()
        with group.expect("second join", "join"):
            second = group.start()
        with group.expect("leave", "leave"):
            group.stop(second)
        group.stop(group.members[0])
        with group.expect("nothing more"):
            pass
    finally:
        group.close()
    return group.group


def write_config(home: Path, mechanism: str, user: str, password: str, trust: str = "ca.pem") -> Path:
    """Write a file of client settings, the only place for a password."""
    module = MECHANISMS[mechanism]
    file = home / f"{mechanism}-{user}-{password == WRONG}-{trust.replace('/', '-')}{SETTINGS_FILE}"
    file.write_text(
        "security.protocol=SASL_SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificates() / trust}\n"
        f"sasl.mechanism={mechanism}\nsasl.jaas.config={JAAS.format(module, user, password)}\n"
    )
    return file


def commands(group: str, address: str, out: Path) -> list[list[str]]:
    """Return all that reads a cluster's log, once."""
    cluster, tables = ["--bootstrap-server", address], ["--out", str(out), "--json"]
    return [
        ["why", group, "--inferred", "--format", "json", *cluster],
        ["why", "--inferred", "--format", "json", *cluster],
        ["events", "--since", "beginning", "--json", *cluster],
        ["groups", "watch", "--count", "1", "--json", *cluster],
        ["pipeline", "ingest", f"kafka://{address}", *tables],
        ["pipeline", "follow", f"kafka://{address}", "--once", *tables],
        ["pipeline", "verify", f"kafka://{address}", "--json"],
    ]


def run(words: list[str]) -> Ended:
    """Run a command to its end."""
    command = [sys.executable, "-m", "coordinator", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def facts(words: list[str], printed: str) -> list[Any]:
    """Return what a command has printed, as it is whoever asks and when; of the pipeline, how many rows and problems."""
    found = [json.loads(line) for line in printed.splitlines()] if words[0] == "events" else json.loads(printed)
    if words[0] == "pipeline":
        return [{name: value for name, value in found.items() if name in ("rows", "problems", "unexplained")}]
    rows = found["events"] if isinstance(found, dict) else found
    return [{name: value for name, value in row.items() if name not in PASSING} for row in rows]


def is_one_line(words: list[str], told: Ended, expected: str) -> bool:
    """Return whether one line, and nothing else, says what is wrong. The table without the log is no failure."""
    lines = [line for line in told.stderr.splitlines() if not line.startswith("[")]  # what the pipeline is doing
    codes = (0,) if words[:2] == ["groups", "watch"] and expected == GRANT else (1, 2)
    return len(lines) == 1 and expected in lines[0] and told.returncode in codes


def name_of(words: list[str]) -> str:
    """Return the words that say which command it is."""
    return " ".join(words[:2])


def read_by_spark(home: Path, address: str, file: Path) -> dict[str, str]:
    """Read the cluster by Spark's jobs and by its source; return the plans, with logs and tables left in the directory."""
    (events := home / "spark-events").mkdir()
    conf = (("spark.eventLog.enabled", "true"), ("spark.eventLog.dir", f"file://{events}"), ("spark.log.level", "INFO"))
    words = [word for name, value in conf for word in ("--conf", f"{name}={value}")]
    common = [*words, "--master", "local[2]", "--command-config", str(file)]
    said = {}
    for job in (["ingest", f"kafka://{address}", "--out", str(home / "tables")],
                ["build", "--out", str(home / "tables"), "--ends", f"kafka://{address}"],
                ["report", f"kafka://{address}", "--out", str(home / "report.html"), "--ends", f"kafka://{address}"]):  # fmt: skip
        told = run(["pipeline", *job, *common, "--spark-log", str(home / f"{job[0]}.log")])
        assert told.returncode == 0, told
        said[f"Spark {job}"] = told.stdout + told.stderr
    spark = session(settings=Settings("local[2]", conf=conf))
    try:
        reader = spark.read.format("kafkalog").option("command_config", str(file))
        rows = reader.load(f"kafka://{address}").where("`group` is not null")
        said["Spark's plan"] = f"{rows.collect()} {rows._jdf.queryExecution()}"
    finally:
        spark.stop()
    print("  Spark: ingest, build and report with --ends, and kafkalog have read the cluster", flush=True)
    return said


def read_all(home: Path) -> Iterator[tuple[str, bytes]]:
    """Yield all files but those with the passwords, and Parquet a second time, not compressed."""
    for file in home.rglob("*"):
        if file.is_file() and file.suffix != SETTINGS_FILE:
            yield str(file), file.read_bytes()
            if file.suffix == ".parquet":
                table = pq.read_table(file, partitioning=None)
                yield f"rows of {file}", f"{table.schema.metadata} {table.to_pylist()}".encode()
