"""The clients: what they can do, and how they are installed by their own languages' tools into a cache directory.

A client's program is called with the words that `programs/README.md` lists; all programs print the same.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from tests.conformance import kafka

PROGRAMS = Path(__file__).parent / "programs"
BUILD_SECONDS = 900
NODE = "22.23.3"  # @platformatic/kafka asks for 22.22; where the machine's is older, npm brings this one
NPM_INSTALL = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund")
ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BOTH = ("classic", "consumer")
FULL_ADMIN = MappingProxyType({"listed": True, "reset": 1, "forgotten": True, "deleted": True})


class Foreign(Struct, frozen=True):
    name: str
    version: str
    install: Callable[[Path], list[str]]  # given a cache directory; the command that its words are put behind
    codecs: tuple[str, ...] = ALL_CODECS
    protocols: tuple[str, ...] = ("classic",)
    statics: tuple[str, ...] = ("classic",)  # the protocols in which it can be a static member
    admin: Mapping[str, object] = FULL_ADMIN
    copies: tuple[str, ...] = ("classic",)  # the protocols in which it sends offsets to a transaction
    notices_growth: tuple[str, ...] = BOTH  # the protocols in which it finds new partitions of a topic by itself
    describes: tuple[str, ...] = (
        BOTH  # the protocols whose groups its administrator can describe; others are Dead to it
    )
    settles_in_seconds: float = 0.0  # how long after a rebalance it may still hand out what it has lost
    upgrades: bool = False  # whether a live group of it moves to the consumer protocol and back
    stays_when_moved: bool = True  # a coordinator that has moved is looked for, and nothing else: nobody rejoins
    restart_ms: int = 500  # how long each broker is down in a rolling restart
    works: tuple[str, ...] = ()  # the protocols in which its program has a copier that may be killed


def cache_directory(named: str | None) -> Path:
    """Where installed clients stay: as named, else as MUSTER_FOREIGN_CACHE says, else the user's cache."""
    path = named or os.environ.get("MUSTER_FOREIGN_CACHE") or Path.home() / ".cache" / "muster" / "foreign"
    return Path(path).expanduser().resolve()


def java(cache: Path) -> list[str]:
    classes = cache / "java"
    classes.mkdir(parents=True, exist_ok=True)
    jars = f"{kafka.jars()}/*"
    run_tool(["javac", "-cp", jars, "-d", str(classes), str(PROGRAMS / "java" / "Foreign.java")], classes)
    return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256M", "-cp", f"{classes}:{jars}", "Foreign"]


def go(program: str) -> Callable[[Path], list[str]]:
    def install(cache: Path) -> list[str]:
        build = cache / "go"
        shutil.copytree(PROGRAMS / "go", build, dirs_exist_ok=True)
        run_tool(["go", "mod", "tidy"], build)
        run_tool(["go", "build", "-o", f"bin-{program}", f"./{program}"], build)
        return [str(build / f"bin-{program}")]

    return install


def node(program: str) -> Callable[[Path], list[str]]:
    def install(cache: Path) -> list[str]:
        build = cache / "node"
        shutil.copytree(PROGRAMS / "node", build, dirs_exist_ok=True)
        run_tool([*NPM_INSTALL], build)
        return [_node(build), str(build / f"{program}.mjs")]

    return install


def _node(build: Path) -> str:
    """The machine's Node, if it is as new as NODE; else that one, from the package registry."""
    said = subprocess.run(["node", "--version"], check=True, timeout=60, capture_output=True, text=True).stdout
    if [int(part) for part in said.strip("v\n").split(".")] >= [int(part) for part in NODE.split(".")]:
        return "node"
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    package = f"node-{platform.system().lower()}-{machine}"
    run_tool([*NPM_INSTALL, "--no-save", f"{package}@{NODE}"], build)
    return str(build / "node_modules" / package / "bin" / "node")


def run_tool(command: list[str], directory: Path) -> bytes:
    """What it prints. Raises subprocess.CalledProcessError when it fails."""
    return subprocess.run(command, cwd=directory, check=True, timeout=BUILD_SECONDS, capture_output=True).stdout


CLIENTS = {
    one.name: one
    for one in (
        Foreign("java", kafka.VERSION, java, protocols=BOTH, statics=BOTH, copies=BOTH, works=BOTH, upgrades=True),
        # It says farewell for a while (epoch -2) without its instance id, which Kafka and Muster refuse: no static return.
        Foreign("franz-go", "1.22.2", go("franz"), protocols=BOTH, copies=BOTH, upgrades=True),
        Foreign("sarama", "1.61.1", go("sarama"), stays_when_moved=False),
        Foreign(
            "kafkajs", "2.2.4", node("kafkajs"), statics=(), stays_when_moved=False,
            admin={"listed": True, "reset": 1, "deleted": True},
        ),
        # It hands out what a Fetch brings that was under way (500 ms) when its partition was taken. Its stream ends when
        # it asks for the leader of a partition again before the broker that it fetched from is back.
        Foreign(
            "platformatic", "2.12.1", node("platformatic"),
            protocols=BOTH, notices_growth=(), describes=("classic",), settles_in_seconds=1.0, restart_ms=0,
        ),
    )
}  # fmt: skip
