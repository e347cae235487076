"""What exists is documented, and what is documented exists."""

import argparse
import re
from pathlib import Path

import pytest

from coordinator import cli
from coordinator.cli import COMMANDS
from coordinator.core.events import Cause
from coordinator.metrics import Snapshot, Stats, exposition
from protocol.apis import TABLE

ROOT = Path(__file__).parent.parent
DOCS = {page.name: page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md")} | {
    "README.md": (ROOT / "README.md").read_text("utf-8")
}
ALL_DOCS = "\n".join(DOCS.values())


def options(name: str) -> set[str]:
    """The long options of a subcommand, those of its own subcommands too."""
    module = cli._module(name)
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    found: set[str] = set()
    waiting = [parser]
    while waiting:
        for action in waiting.pop()._actions:
            found |= {option for option in action.option_strings if option.startswith("--")}
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()
    return found - {"--help"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_its_options_are_documented(command: str) -> None:
    assert f"muster {command}" in ALL_DOCS
    missing = sorted(option for option in options(command) if option not in ALL_DOCS)
    assert missing == []


def test_the_options_that_the_usage_page_names_exist() -> None:
    section = DOCS["usage.md"].partition("## `muster serve`")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `(--[a-z-]+)", section, re.MULTILINE))
    assert named == options("serve")


def test_every_metric_is_documented_and_every_documented_one_exists() -> None:
    stats = Stats()
    stats.answered(12, 0.001)
    stats.failed(12, 25)
    stats.rebalances["g", "classic", "member joined"] += 1
    stats.events["member joined"] += 1
    now = Snapshot(
        groups={("classic", "Stable"): 1}, members={"classic": 1}, group_members={"g": 1}, group_generation={"g": 1},
        offsets=1, offset_commits=3, offset_expirations=2, offset_deletions=1, partitions={"active": 50},
        log_bytes={"t": 1}, connections=1, recovery_seconds=0.1, started_seconds=1.0, version="1",
    )  # fmt: skip
    text = exposition(stats, now, lambda api_key: "Heartbeat").decode()
    exists = set(re.findall(r"^# HELP (muster_\w+)", text, re.MULTILINE))
    documented = set(re.findall(r"`(muster_\w+)`", DOCS["usage.md"]))
    assert exists == documented
    assert 'muster_rebalances_total{cause="member joined",group="g",protocol="classic"} 1.0' in text
    assert 'muster_errors_total{api="Heartbeat",code="UNKNOWN_MEMBER_ID"} 1.0' in text
    assert "muster_offset_commits_total 3.0" in text
    assert "muster_offset_expirations_total 2.0" in text
    assert "muster_offset_deletions_total 1.0" in text
    assert 'muster_request_seconds_bucket{api="Heartbeat",le="0.001"} 1.0' in text


def test_what_is_deployed_asks_for_metrics_and_causes_that_exist() -> None:
    asked = (ROOT / "deploy" / "alerts.yml").read_text("utf-8")
    assert set(re.findall(r"\bmuster_\w+", asked)) <= set(re.findall(r"`(muster_\w+)`", DOCS["usage.md"]))
    assert set(re.findall(r'cause="([^"]+)"', asked)) <= {cause.value for cause in Cause}
    service = (ROOT / "deploy" / "muster.service").read_text("utf-8")
    assert set(re.findall(r" (--[a-z-]+)", service)) <= options("serve")


def test_every_cause_is_documented() -> None:
    section = DOCS["usage.md"].partition("## Why did it rebalance?")[2].partition("\n## ")[0]
    tables = "\n".join(line for line in section.splitlines() if line.startswith("|"))
    assert set(re.findall(r"`([a-z ]+)`", tables)) == {cause.value for cause in Cause}


def test_every_api_has_one_name_in_every_layer() -> None:
    for api in TABLE:
        assert (ROOT / "protocol" / "messages" / f"{api.module}.py").exists()
        assert api.name in DOCS["protocol.md"]


def test_every_module_says_what_it_is() -> None:
    for folder in ("coordinator", "protocol", "storage", "pipeline", "tests", "benchmarks", "docs"):
        for path in (ROOT / folder).rglob("*.py"):
            source = path.read_text("utf-8")
            assert not source or re.match(r'(#!.*\n)?r?"""', source), f"{path.relative_to(ROOT)} has no docstring"


def test_every_subcommand_that_is_written_can_be_called() -> None:
    folder = ROOT / "coordinator" / "cli"
    written = {path.stem for path in folder.glob("*.py") if re.search(r"^HELP = ", path.read_text("utf-8"), re.MULTILINE)}
    assert written == set(COMMANDS)
