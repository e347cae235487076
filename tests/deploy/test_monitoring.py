"""Rules and board: what they ask for is there, and the alerts are raised when they should be."""

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from coordinator.core.events import Cause
from tests.deploy.programs import need
from tests.live import WAIT_SECONDS, Muster, wait_until
from tests.ports import reserve_ports

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = yaml.safe_load((DEPLOY / "rules.yml").read_text("utf-8"))
BOARD = json.loads((DEPLOY / "grafana/provisioning/dashboards/muster.json").read_text("utf-8"))
PROCESS = {"process_open_fds", "process_max_fds", "process_resident_memory_bytes", "process_cpu_seconds_total"}
DOCUMENTED = set(re.findall(r"`(muster_\w+)`", (DEPLOY.parent / "docs" / "usage.md").read_text("utf-8")))


def rules() -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"]]


def queries() -> dict[str, str]:
    """The queries of the board, by panel, with Grafana's variables as they are at first."""
    variables = {"$__rate_interval": "1m", "$instance": ".*", "$group": ".*", "${datasource}": "prometheus"}
    found = {}
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for name, value in variables.items():
                expression = expression.replace(name, value)
            found[f"{panel['title']} {target['refId']}"] = expression
    return found


def metrics_in(expression: str) -> set[str]:
    """The metrics that an expression names; those of a histogram by its own name."""
    named = set(re.findall(r"\b((?:muster|process|up)_?\w*)\b(?![:\"=])", expression)) - {"muster", "up"}
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in named if not re.search(rf"\b{name}:", expression)}


def test_every_metric_that_is_asked_for_exists() -> None:
    asked = [*queries().values(), *(rule["expr"] for rule in rules())]
    named = set().union(*(metrics_in(expression) for expression in asked))
    recorded = {name for expression in asked for name in re.findall(r"\bmuster:[\w:]+", expression)}
    assert len(named) > 25
    assert named - PROCESS <= DOCUMENTED
    assert recorded <= {rule["record"] for rule in rules() if "record" in rule}
    causes = {cause for expression in asked for cause in re.findall(r'cause="(\w+)"', expression)}
    assert causes and causes <= {cause.value for cause in Cause}


def test_every_alert_has_a_severity_and_a_sentence() -> None:
    alerts = [rule for rule in rules() if "alert" in rule]
    assert {rule["labels"]["severity"] for rule in alerts} == {"critical", "warning", "info"}
    assert all(rule["annotations"]["summary"].endswith((".", "why.")) for rule in alerts)
    tested = (Path(__file__).parent / "rules_test.yml").read_text("utf-8")
    assert [rule["alert"] for rule in alerts if f'"{rule["alert"]}"' not in tested] == []


def test_the_alerts_are_raised_when_they_should_be(tmp_path: Path) -> None:
    promtool = need("promtool", "Debian's package prometheus")
    shutil.copy(DEPLOY / "rules.yml", tmp_path)
    shutil.copy(DEPLOY / "prometheus.yml", tmp_path)
    shutil.copy(Path(__file__).parent / "rules_test.yml", tmp_path)
    for words in (("check", "config", "prometheus.yml"), ("test", "rules", "rules_test.yml")):
        done = subprocess.run([promtool, *words], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_queries_of_the_board_can_be_read(tmp_path: Path) -> None:
    promtool = need("promtool", "Debian's package prometheus")
    as_rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries().values())]
    (tmp_path / "board.yml").write_text(json.dumps({"groups": [{"name": "board", "rules": as_rules}]}))
    done = subprocess.run(
        [promtool, "check", "rules", "board.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_board_has_its_panels_side_by_side() -> None:
    assert BOARD["uid"] == "muster"
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


QUIET = {
    "Errors a second",
    "Failures of the server itself",
    "Connections closed by the server",
    "Parked for, 90th percentile",
}
"""Panels that are empty where nothing has gone wrong, or nothing has waited."""


@pytest.mark.long  # scrapes for a while
def test_every_query_finds_something_in_a_real_prometheus(tmp_path: Path) -> None:
    """Muster with a group at work, a Prometheus on loopback that scrapes it, and each query of the board and the rules."""
    from confluent_kafka import Consumer, Producer

    program = need("prometheus", "Debian's package prometheus")
    with Muster(tmp_path, "--topic", "orders:4", "--fsync") as muster:
        configuration = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))
        configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        configuration["scrape_configs"][0]["static_configs"] = [
            {"targets": [muster.ready["admin"].removeprefix("http://")]}
        ]
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        shutil.copy(DEPLOY / "rules.yml", tmp_path)
        with prometheus(program, tmp_path) as ask:
            producer = Producer({"bootstrap.servers": muster.kafka})
            consumer = Consumer(
                {
                    "bootstrap.servers": muster.kafka,
                    "group.id": "shop",
                    "auto.offset.reset": "earliest",
                    "auto.commit.interval.ms": 200,
                }
            )
            consumer.subscribe(["orders"])

            def work() -> bool:
                for partition in range(4):
                    producer.produce("orders", b"x", partition=partition)
                producer.poll(0)
                consumer.poll(0.2)
                return True

            def missing() -> list[str]:
                work()
                return [panel for panel, query in queries().items() if panel[:-2] not in QUIET and not ask(query)]

            wait_until("every panel has something to show", lambda: not missing())
            records = [rule["record"] for rule in rules() if "record" in rule]
            wait_until("every recorded series is there", lambda: work() and all(ask(one) for one in records))
            for rule in rules():
                ask(rule["expr"])
            for variable in BOARD["templating"]["list"]:
                if variable["type"] == "query":
                    metric, label = re.findall(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])[0]
                    assert any(label in one["metric"] for one in ask(metric)), variable["name"]
            consumer.close()


@contextmanager
def prometheus(program: str, folder: Path) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """A Prometheus on a free port of loopback. Gives a function that asks it."""
    with reserve_ports(0) as (port,), (folder / "prometheus.log").open("wb") as log:
        files = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb")
        command = [program, *files, f"--web.listen-address=127.0.0.1:{port}"]

        def ask(query: str) -> list[dict[str, Any]]:
            address = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
            with urllib.request.urlopen(address, timeout=30) as answer:
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found

        def is_up() -> bool:
            assert process.poll() is None, (folder / "prometheus.log").read_text()[-2000:]
            try:
                return bool(ask('up{job="muster"} == 1'))
            except OSError:
                return False

        with subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                wait_until("Prometheus has scraped the server", is_up)
                yield ask
            finally:
                process.terminate()
