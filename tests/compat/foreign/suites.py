"""Suites of tests that clients bring themselves, run as they are against Kafka and against the server.

A test that passes against Kafka must pass against the server.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

from msgspec import Struct, json

from tests.compat.foreign.clients import CLIENTS, run_tool
from tests.compat.foreign.report import Report
from tests.conformance import kafka
from tests.live import Muster

SUITE_SECONDS = 540
SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",  # for the tests of ACLs
    "super.users": "User:ANONYMOUS",
}
Outcomes = Mapping[str, str]  # by name of a test: passed, failed, skipped


class Suite(Struct, frozen=True):
    what: str
    install: Callable[[Path], Callable[[str], Outcomes]]  # given a cache directory; then where the server listens


def run(suite: Suite, cache: Path, report: Report) -> None:
    """One line a test."""
    with report.check(f"{suite.what}: runs against Kafka {kafka.VERSION} and the server"):
        expected, found = both(suite.install(cache))
        for name, outcome in found.items():
            with report.check(f"{suite.what}: {name} {outcome}, against Kafka {expected[name]}"):
                assert outcome in (expected[name], "passed"), "it should pass as it does there"


def both(outcomes: Callable[[str], Outcomes]) -> tuple[Outcomes, Outcomes]:
    """What came of the tests against Kafka, and against the server."""
    with kafka.running(SETTINGS) as port:
        expected = outcomes(f"127.0.0.1:{port}")
    settings = [f"--set={name}={value}" for name, value in SETTINGS.items()]
    with tempfile.TemporaryDirectory() as folder, Muster(Path(folder), *settings) as muster:
        found = outcomes(muster.kafka)
    assert expected, "no test ran"
    assert found.keys() == expected.keys(), f"other tests ran: {sorted(found.keys() ^ expected.keys())}"
    return expected, found


# --- kafka-python: the integration tests of its source distribution

KAFKA_PYTHON = "3.0.12"
PARTS = ("consumer", "producer", "admin")  # those of TLS and SASL start a broker by scripts that the distribution lacks
CODECS = ("python-snappy", "lz4", "zstandard")
# The distribution leaves this module out. Its fixtures need the name; nothing is started, for the broker runs already.
SERVICE = """
class ExternalService:
    def __init__(self, host, port): self.host, self.port = host, port
    def close(self): pass

SpawnedService = None
"""


def kafka_python(cache: Path) -> Callable[[str], Outcomes]:
    home = cache / "kafka-python"
    source = home / f"kafka_python-{KAFKA_PYTHON}"
    if not source.is_dir():
        wanted = ["--no-deps", "--no-binary", ":all:", "--dest", str(home), f"kafka-python=={KAFKA_PYTHON}"]
        home.mkdir(parents=True, exist_ok=True)
        run_tool([sys.executable, "-m", "pip", "download", *wanted], home)
        with tarfile.open(home / f"{source.name}.tar.gz") as packed:
            packed.extractall(home, filter="data")
        run_tool([sys.executable, "-m", "pip", "install", "--target", str(home / "codecs"), *CODECS], home)
    (source / "test" / "__init__.py").touch()  # else Python's own `test` would be found
    (source / "test" / "service.py").write_text(SERVICE)
    return lambda bootstrap: run_kafka_python(source, bootstrap)


def run_kafka_python(source: Path, bootstrap: str) -> Outcomes:
    """By test, without its file's path. The client that is tested is the one beside the tests."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as results:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="]
        files = [f"test/integration/test_{part}_integration.py" for part in PARTS]
        environment = {
            "KAFKA_VERSION": kafka.VERSION, "KAFKA_URI": f"kafka://{bootstrap}", "KAFKA_ROOT": str(source),
            "PYTHONPATH": f"{source}{os.pathsep}{source.parent / 'codecs'}",
        }  # fmt: skip
        subprocess.run(
            [*command, f"--junitxml={results.name}", *files],
            cwd=source, env=os.environ | environment, timeout=SUITE_SECONDS, capture_output=True,
        )  # fmt: skip
        return {
            f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}": outcome_of(case)
            for case in ElementTree.parse(results.name).iter("testcase")
        }


def outcome_of(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


# --- franz-go: the tests of package kgo that its module carries

FRANZ_GO = CLIENTS["franz-go"].version
RECORDS = "5000"  # half a million is what they take without this, and hours on a small machine
RESULT = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)
SAID = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


def franz_go(cache: Path) -> Callable[[str], Outcomes]:
    build = cache / "go"
    build.mkdir(parents=True, exist_ok=True)
    module = f"github.com/twmb/franz-go@v{FRANZ_GO}"
    told = run_tool(["go", "mod", "download", "-json", module], build)
    package = Path(json.decode(told)["Dir"]) / "pkg" / "kgo"
    binary = build / "kgo.test"
    run_tool(["go", "test", "-c", "-o", str(binary), "."], package)
    return lambda bootstrap: run_franz_go(binary, package, bootstrap)


def run_franz_go(binary: Path, package: Path, bootstrap: str) -> Outcomes:
    """By test; what its parts came to is in it. Some read the source of their package: they run where it is."""
    environment = {"KGO_SEEDS": bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": RECORDS, "KGO_LOG_LEVEL": "none"}
    limits = [f"-test.timeout={SUITE_SECONDS - 10}s", "-test.parallel=4", "-test.v"]
    done = subprocess.run(
        [str(binary), *limits],
        cwd=package, env=os.environ | environment, timeout=SUITE_SECONDS, capture_output=True, text=True,
    )  # fmt: skip
    return {name: SAID[said] for said, name in RESULT.findall(done.stdout)}


SUITES = {
    "kafka-python-suite": Suite(f"kafka-python {KAFKA_PYTHON}", kafka_python),
    "franz-go-suite": Suite(f"franz-go {FRANZ_GO}", franz_go),
}
