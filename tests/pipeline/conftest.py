"""One Spark session for all tests that need it, in whichever worker runs the group `spark`; a lost one is replaced."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.object_store import KEYS

FAILED = pytest.StashKey[bool]()


class SharedSession:
    """A local session for little data, which compiles nothing, started when it is needed."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch  # of the warehouse and all temporary files
        self._session: Any = None

    def get(self) -> Any:
        """Return the session; a new one in a Java process of its own if there is none that lives."""
        from pipeline.session import Settings, session

        if self._session is not None and not is_alive(self._session):
            self.kill()
        if self._session is None:
            conf = {
                "spark.local.dir": str(self._scratch),
                "spark.sql.warehouse.dir": str(self._scratch / "warehouse"),
                # A machine that is busy with other tests may answer late; that is no reason to lose the session.
                "spark.network.timeout": "600s",
                "spark.executor.heartbeatInterval": "60s",
                "spark.python.authenticate.socketTimeout": "120s",
            }
            self._session = session(settings=Settings("local[2]", "768m", conf=tuple(conf.items()), is_small=True))
        return self._session

    def kill(self) -> None:
        """End the session with its Java process, whatever state they are in: nothing is asked of them.

        PySpark keeps both for the whole life of a Python process, so what it knows of them is forgotten here.
        """
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        if self._session is None:
            return
        gateway, self._session = SparkContext._gateway, None
        gateway.proc.kill()
        gateway.proc.wait()
        gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None


def is_alive(session: Any) -> bool:
    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except Exception:  # of many kinds, as its Java process has ended
        return False


@pytest.fixture(scope="session")
def shared_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedSession]:
    shared = SharedSession(tmp_path_factory.mktemp("spark"))
    yield shared
    shared.kill()


@pytest.fixture
def spark(request: pytest.FixtureRequest, shared_session: SharedSession) -> Iterator[Any]:
    """The session. One with which a test has failed, perhaps because it ran out of time, is not used again."""
    yield shared_session.get()
    if request.node.stash.get(FAILED, False):
        shared_session.kill()


@pytest.fixture(scope="module")
def store_keys() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for name, value in KEYS.items():
            patched.setenv(name, value)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report
