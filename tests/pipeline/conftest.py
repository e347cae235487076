"""One Spark session for all tests that need it, in whichever worker runs the group `spark`."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A small local session. Its warehouse and scratch files lie in a temporary directory."""
    from pipeline.session import session

    scratch = tmp_path_factory.mktemp("spark")
    made = session(
        "local[2]",
        memory="768m",
        conf={
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.local.dir": str(scratch),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        },
    )
    yield made
    made.stop()
