"""One Spark session for all tests that need it, in whichever worker runs the group `spark`."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local session for little data, which compiles nothing. Its warehouse and scratch files lie in a temporary directory."""
    from pipeline.session import Settings, session

    scratch = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # A machine that is busy with other tests may answer late; that is no reason to lose the session.
        "spark.network.timeout": "600s",
        "spark.executor.heartbeatInterval": "60s",
        "spark.python.authenticate.socketTimeout": "120s",
    }
    made = session(settings=Settings("local[2]", "768m", conf=tuple(conf.items()), is_small=True))
    yield made
    made.stop()
