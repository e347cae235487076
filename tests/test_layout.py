"""What exists is documented, and what is documented exists."""

import argparse
import ast
import re
from pathlib import Path
from typing import cast

import pytest

from coordinator import cli
from coordinator.admin.app import Readiness, routes
from coordinator.admin.control import control_operations
from coordinator.admin.operations import PATH
from coordinator.cli import COMMANDS
from coordinator.cli.habits import ACTIONS, NAMED, OTHERS
from coordinator.cli.parser import Parser
from coordinator.config import SETTINGS
from coordinator.core.events import Cause
from coordinator.core.share_partitions.tally import DeliveryTally
from coordinator.dataplane.traffic import Traffic
from coordinator.events import Ring
from coordinator.kafka_settings import NAMES
from coordinator.metrics import GroupOffset, Latency, Snapshot, Stats, exposition
from coordinator.server.operator import Operator
from protocol.apis import TABLE
from tests.steps import finish

ROOT = Path(__file__).parent.parent
DOCS = {page.name: page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md")} | {
    "README.md": (ROOT / "README.md").read_text("utf-8")
}

SOURCE_OF_JOBS = (ROOT / "pipeline" / "commands.py").read_text("utf-8")


def options(name: str) -> set[str]:
    """The long options of a subcommand, those of its own subcommands too."""
    module = cli.load_module(name)
    parser = Parser()
    module.add_arguments(parser)
    found: set[str] = set()
    waiting = [parser]
    while waiting:
        for action in waiting.pop()._actions:
            found |= {option for option in action.option_strings if option.startswith("--")}
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()
    return found - {"--help"}


def section(page: str, heading: str) -> str:
    """What a page says under a heading that holds the text, and what the headings above that one begin with."""
    found, above, inside = "", dict[int, str](), 0
    for level, title, text in parts(page):
        if inside and level > inside:
            found += text
            continue
        inside = level if heading in title else 0
        above = {upper: intro for upper, intro in above.items() if upper < level} | {level: text}
        found += "".join(above.values()) if inside else ""
    return found


def parts(page: str) -> list[tuple[int, str, str]]:
    """A page cut at its headings: the level of each, the heading, and the text up to the next one."""
    found: list[tuple[int, str, str]] = []
    is_code = False
    for line in page.splitlines(keepends=True):
        is_code ^= line.lstrip().startswith("```")
        if not is_code and (heading := re.match(r"(#+) (.*)", line)):
            found.append((len(heading[1]), heading[2], ""))
        elif found:
            level, title, text = found[-1]
            found[-1] = (level, title, text + line)
    return found


def named(text: str) -> set[str]:
    """The options that a text names, each as a whole word."""
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*(?![\w-])", text))


def about(command: str) -> str:
    """What the pages say of a command, in the place that is its own."""
    if command == "pipeline":
        return DOCS["pipeline.md"]
    return section(DOCS["usage.md"], {"config": "Settings"}.get(command, f"`muster {command}`"))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_its_options_are_documented(command: str) -> None:
    assert f"muster {command}" in DOCS["usage.md"]
    assert options(command) - named(about(command)) == set()


def test_an_option_is_documented_by_its_whole_name_in_its_own_section() -> None:
    page = "# A\n`--json`\n## `muster x`\n`--members`\n```\n# no heading --code\n```\n### more\n`--deep`\n## `muster y`\n`--far`\n"
    assert named(section(page, "`muster x`")) == {"--json", "--members", "--code", "--deep"}
    assert named(section(page, "`muster y`")) == {"--json", "--far"}
    assert section(page, "`muster z`") == ""


def test_the_options_that_the_usage_page_names_exist() -> None:
    table = section(DOCS["usage.md"], "`muster serve`")
    assert set(re.findall(r"^\| `(--[a-z-]+)", table, re.MULTILINE)) == options("serve")


FOREIGN = {option for words in NAMED.values() for option in words} | {option for _, option in OTHERS}  # from habit
FOREIGN |= {f"--{action}" for actions in ACTIONS.values() for action in actions}
FOREIGN |= {
    "--rm",
    "--entrypoint",
    "--build",
    "--strict",
    "--offsets-decoder",
    "--no-deps",
    "--test",
}  # options of Docker, MkDocs, pip, Node and Kafka's tools


@pytest.mark.parametrize("page", ["README.md", "usage.md", "testing.md", "docker.md", "troubleshooting.md", "index.md"])
def test_every_option_that_a_page_names_exists(page: str) -> None:
    exists = {"--help", "--version", *(option for command in COMMANDS for option in options(command))}
    exists |= {option for action in cli.build_parser(())._actions for option in action.option_strings}
    assert named(DOCS[page]) - exists - FOREIGN == set()


def test_every_setting_is_documented_and_no_page_names_another() -> None:
    rows = re.findall(r"^\| `([a-z.]+)` \|", DOCS["settings.md"], re.MULTILINE)
    assert rows == [setting.name for setting in SETTINGS]
    given = {name for page in DOCS.values() for name in re.findall(r"--set ([a-z]+\.[a-z.]+[a-z])", page)}
    assert given - {"cleanup.policy", "retention.ms"} <= NAMES | {setting.name for setting in SETTINGS}


def test_every_endpoint_is_documented() -> None:
    paths = routes(lambda: Readiness(True, 0, 0), _no_metrics, Ring()).paths()
    table = section(DOCS["usage.md"], "Health, metrics and events over HTTP")
    assert set(re.findall(r"^\| `(/[a-z]+)`", table, re.MULTILINE)) == set(paths)


def test_every_call_of_the_control_api_is_documented_and_no_page_names_another() -> None:
    operations = control_operations(cast("Operator", None), Ring(), 0)
    calls = {(one.method, re.sub(r"{[a-z]+}", "*", one.path)) for one in operations} | {("GET", PATH)}
    page = DOCS["steering.md"]
    named = {(method, re.sub(r"{[a-z]+}", "*", path)) for method, path in re.findall(r"`([A-Z]+) (/v1[^ ?`]*)", page)}
    named |= {("GET", path) for path in re.findall(r"`(/v1/[a-z.]+)`", page)}
    for method, path in re.findall(r"muster\(\s*\"([A-Z]+)\", f?\"([^\"?]*)", page):
        path = re.sub(r"{[^}]+}|(?<=/groups/)shop|(?<=/coordinators/)shop|(?<=/snapshots/)lagging", "*", path)
        named.add((method, "/v1" + path))
    for method, path in re.findall(r"curl (?:-o \S+ )?(?:-X ([A-Z]+) )?'?http://127.0.0.1:8092(/v1/[^ ?']*)", page):
        named.add((method or "GET", path.replace("/groups/shop", "/groups/*")))
    assert named == calls


def test_every_variable_is_documented() -> None:
    sources = [path.read_text("utf-8") for path in (ROOT / "coordinator").rglob("*.py")]
    used = {name for source in sources for name in re.findall(r"\b(?:MUSTER_[A-Z_]*[A-Z]|NO_COLOR)\b", source)}
    table = section(DOCS["usage.md"], "Exit codes and variables")
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", table, re.MULTILINE)) == used


def exit_codes(path: Path) -> set[int]:
    """The whole numbers that a module returns or hands to `fail`, as numbers or by names of its own."""
    tree = ast.parse(path.read_text("utf-8"))
    names = {"code": 0} | {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    given: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "fail":
            given += node.args[2:] or [ast.Constant(1)]
        elif isinstance(node, ast.Return) and node.value is not None:
            given.append(node.value)
    values = [names.get(one.id) if isinstance(one, ast.Name) else getattr(one, "value", None) for one in given]
    return {value for value in values if type(value) is int and value >= 0}


def test_every_exit_code_is_documented() -> None:
    rows = re.findall(r"^\| (\d+) \| ([^|]*) \|", section(DOCS["usage.md"], "Exit codes and variables"), re.MULTILINE)
    folder = ROOT / "coordinator" / "cli"
    used = {name: exit_codes(folder / f"{name}.py") for name in COMMANDS} | {"": exit_codes(folder / "__init__.py")}
    found = re.search(r"^OK, FAILED, USAGE, PROBLEMS, MISMATCH = ([\d, ]+)$", SOURCE_OF_JOBS, re.MULTILINE)
    assert found, "the jobs have their exit codes in one line"
    used["pipeline"] |= {int(code) for code in found[1].split(",")}
    for command, codes in used.items():
        documented = {int(code) for code, commands in rows if commands == "all" or f"`{command}`" in commands}
        assert codes <= documented, command
    assert {int(code) for code, _ in rows} == {2, *(code for codes in used.values() for code in codes)}


async def _no_metrics(accept: str) -> tuple[bytes, str]:
    return b"", ""


def test_every_metric_is_documented_and_every_documented_one_exists() -> None:
    stats = Stats()
    stats.count_response(12, 0.001)
    stats.count_wait(11, 0.001)
    stats.count_turn(1.0, 1.02)
    stats.count_work("upkeep", 1.0, 1.02)
    stats.count_closed_connection("idle")
    stats.count_error(12, 25)
    stats.rebalances["g", "classic", "member_joined"] += 1
    stats.events["member_joined"] += 1
    now = Snapshot(
        groups={("classic", "Stable"): 1}, members={"classic": 1}, group_members={"g": 1}, group_generation={"g": 1},
        offsets=1, offset_commits=3, offset_expirations=2, offset_deletions=1, deliveries=DeliveryTally(1), records_in_flight=2, partitions={"active": 50},
        group_offsets=[GroupOffset("g", "t", 0, 3, 4)], traffic={"t": Traffic(1, 2, 3, 4)}, syncs=Latency(), disk=(2, 1), memory_limit=3,
        partitions_closed={("t", 0)}, log_bytes={"t": 1}, connections={"PLAINTEXT": 1}, held_bytes={"events": 1}, log_lines_dropped=0,
        recovery_seconds=0.1, started_seconds=1.0, version="1",
        internal_errors={"JoinGroup": 1},
    )  # fmt: skip
    text = finish(exposition(stats, now, lambda api_key: "Heartbeat"))[0].decode()
    exists = set(re.findall(r"^# HELP (muster_\w+)", text, re.MULTILINE))
    documented = set(re.findall(r"`(muster_\w+)`", DOCS["usage.md"]))
    assert exists == documented
    assert 'muster_rebalances_total{cause="member_joined",group="g",protocol="classic"} 1.0' in text
    assert 'muster_errors_total{api="Heartbeat",code="UNKNOWN_MEMBER_ID"} 1.0' in text
    assert 'muster_group_lag{group="g",partition="0",topic="t"} 4.0' in text
    assert 'muster_long_work_cpu_seconds_bucket{le="+Inf",work="upkeep"} 1.0' in text
    assert "muster_offset_commits_total 3.0" in text
    assert "muster_offset_expirations_total 2.0" in text
    assert "muster_offset_deletions_total 1.0" in text
    assert 'muster_request_seconds_bucket{api="Heartbeat",le="0.001"} 1.0' in text


def test_what_is_deployed_uses_options_that_exist() -> None:
    service = (ROOT / "deploy" / "muster.service").read_text("utf-8")
    assert set(re.findall(r" (--[a-z-]+)", service)) <= options("serve")


def test_every_cause_is_documented() -> None:
    why = section(DOCS["usage.md"], "Why did it rebalance?")
    tables = "\n".join(line for line in why.splitlines() if line.startswith("|"))
    assert set(re.findall(r"`([a-z_]+)`", tables)) == {cause.value for cause in Cause}


def test_every_api_has_one_name_in_every_layer() -> None:
    for api in TABLE:
        assert (ROOT / "protocol" / "messages" / f"{api.module}.py").exists()
        assert api.name in DOCS["protocol.md"]


def test_every_module_says_what_it_is() -> None:
    for folder in ("muster", "coordinator", "protocol", "storage", "pipeline", "tests", "benchmarks", "docs"):
        for path in (ROOT / folder).rglob("*.py"):
            source = path.read_text("utf-8")
            assert not source or re.match(r'(#!.*\n)?r?"""', source), f"{path.relative_to(ROOT)} has no docstring"


def test_every_subcommand_that_is_written_can_be_called() -> None:
    modules = {path.stem for path in (ROOT / "coordinator" / "cli").glob("*.py")}
    assert set(COMMANDS) <= modules
    assert all(callable(cli.load_module(name).run) for name in COMMANDS)
    said = re.compile(r"^def add_arguments\(", re.MULTILINE)
    written = {
        name for name in modules if said.search((ROOT / "coordinator" / "cli" / f"{name}.py").read_text("utf-8"))
    }
    assert written == set(COMMANDS)


def test_what_tests_share_is_in_no_module_of_tests() -> None:
    """Who looks for a helper looks in modules that are named for what they give, and a test may be taken away."""
    files = [path for folder in ("tests", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py")]
    imports = re.compile(r"^\s*(?:from|import) tests\.(?:\w+\.)*test_\w+", re.MULTILINE)
    assert [str(path.relative_to(ROOT)) for path in files if imports.search(path.read_text("utf-8"))] == []
