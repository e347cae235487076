"""The chapters of docs/testing.md, each run as a project of its own, as a reader would."""

import os
import re
import shutil
import subprocess
import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.live import Muster, server_fixture

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text("utf-8")
IS_INSTALLED = bool(entry_points(group="pytest11", name="muster"))  # pytest-muster, beside the server
SECONDS = 600  # to fetch what a project needs

READ_ADDRESSES = """export MUSTER=$(python3 -c 'import json; print(json.load(open("ready.json"))["admin"])')
export MUSTER_BOOTSTRAP=$(python3 -c 'import json; print(json.load(open("ready.json"))["kafka"])')
"""

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId><artifactId>example</artifactId><version>1</version>
  <properties><maven.compiler.release>17</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId><version>4.3.1</version></dependency>
    <dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId><version>5.13.4</version><scope>test</scope></dependency>
  </dependencies>
  <build><plugins>
    <plugin><artifactId>maven-compiler-plugin</artifactId><version>3.14.0</version></plugin>
    <plugin><artifactId>maven-surefire-plugin</artifactId><version>3.5.3</version></plugin>
  </plugins></build>
</project>
"""


def example(chapter: str, language: str) -> str:
    """The code of the one block in a language of a chapter."""
    (text,) = re.findall(rf"^## {re.escape(chapter)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return str(found)


muster = server_fixture("--ephemeral", scope="function")


def run(muster: Muster, folder: Path, *command: str) -> str:
    """Run a command of a project. It is skipped, loudly, where its program is missing."""
    if shutil.which(command[0]) is None:
        warnings.warn(f"NO {command[0].upper()}: a chapter of docs/testing.md is not tried", stacklevel=2)
        pytest.skip(f"no {command[0]} on this machine")
    environment = os.environ | {"BOOTSTRAP_SERVERS": muster.kafka, "MUSTER": muster.ready["admin"]}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def test_the_chapter_on_failover(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        warnings.warn("NO CURL: a chapter of docs/testing.md is not tried", stacklevel=2)
        pytest.skip("no curl on this machine")
    (script,) = re.findall(r"^## Failover\n.*?^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    script = script.replace("muster serve", "muster serve --listen 127.0.0.1:0 --admin 127.0.0.1:0")
    script = script.replace("done\n", f"done\n{READ_ADDRESSES}", 1).replace("http://127.0.0.1:8092", "$MUSTER")
    bin_folder = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{bin_folder}:{os.environ['PATH']}"}
    script = "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n" + script  # where a line of it fails
    done = subprocess.run(
        ["bash", "-em"], cwd=tmp_path, env=environment, input=script, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"broker":2' in done.stdout and done.stdout.count('"is_running":true') == 3


@pytest.mark.long  # fetches JUnit and a client
def test_the_chapter_on_junit(muster: Muster, tmp_path: Path) -> None:
    folder = tmp_path / "java"
    (folder / "src/test/java").mkdir(parents=True)
    (folder / "pom.xml").write_text(POM)
    (folder / "src/test/java/BillingTest.java").write_text(example("JUnit", "java"))
    assert "Tests run: 1, Failures: 0, Errors: 0" in run(muster, folder, "mvn", "-B", "test")
    assert "session expired" in muster.get("/v1/groups/billing/timeline?format=text")


@pytest.mark.long  # fetches JUnit and Kafka Streams
def test_the_chapter_on_kafka_streams(muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts a server of its own."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    folder = tmp_path / "streams"
    (folder / "src/test/java").mkdir(parents=True)
    (folder / "pom.xml").write_text(POM.replace("kafka-clients", "kafka-streams"))
    shutil.copy(ROOT / "clients" / "Muster.java", folder / "src/test/java")
    (folder / "src/test/java/WordCountTest.java").write_text(example("Kafka Streams", "java"))
    assert "Tests run: 1, Failures: 0, Errors: 0" in run(muster, folder, "mvn", "-B", "test")


@pytest.mark.long  # fetches a client
def test_the_chapter_on_go(muster: Muster, tmp_path: Path) -> None:
    folder = tmp_path / "go"
    folder.mkdir()
    (folder / "go.mod").write_text("module billing\n\ngo 1.24\n\nrequire github.com/twmb/franz-go v1.22.2\n")
    (folder / "billing_test.go").write_text(example("Go", "go"))
    run(muster, folder, "go", "mod", "tidy")
    run(muster, folder, "go", "vet", ".")
    assert "PASS: TestAMemberThatHangs" in run(muster, folder, "go", "test", "-v", "-count=1", ".")
    assert "session expired" in muster.get("/v1/groups/billing/timeline?format=text")


@pytest.mark.long  # fetches a client
def test_the_chapter_on_node(muster: Muster, tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    (folder / "package.json").write_text('{"type": "module", "dependencies": {"kafkajs": "2.2.4"}}')
    (folder / "billing.test.js").write_text(example("Node", "js"))
    run(muster, folder, "npm", "install", "--no-audit", "--no-fund")
    assert re.search(r"pass 1\b", run(muster, folder, "node", "--test"))


def test_every_chapter_is_there() -> None:
    for chapter, language in (("JUnit", "java"), ("Go", "go"), ("Node", "js"), ("pytest", "python")):
        assert "expire" in example(chapter, language)
    assert "expire" in example("Kafka Streams", "java") and "sleep" not in example("Kafka Streams", "java")


def test_the_chapter_on_queues(tmp_path: Path) -> None:
    (tmp_path / "test_mail.py").write_text(example("Queues: share groups", "python"))
    plugin = [] if IS_INSTALLED else ["-p", "pytest_muster.plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *plugin, "test_mail.py"]
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'pytest-muster' / 'src'}:{ROOT}",
    }
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert "2 passed" in done.stdout, done.stdout[-4000:] + done.stderr[-4000:]
