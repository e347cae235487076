"""A build whose process is killed at a named step, for `test_object_store_killed`. Run as a process of its own.

Its argument is JSON: the tables, the format, Spark's settings, the step at which to die, the master. Before it builds, it prints
behind a mark, as JSON, how many rows each table has that the views name which are in the store; null where nothing was built yet.
"""

import json
import os
import signal
import sys
from typing import Any

from pipeline import locks, published
from pipeline.decode.files import Store
from pipeline.jobs.build import build
from pipeline.session import Settings, session
from pipeline.tables import groups

MARK = "rows by views: "
TABLES = ("offset_commits", "latest_offsets", "rebalances")


def die(*_: Any, **_names: Any) -> Any:
    """End this process and its Java as a machine that loses its power does."""
    os.killpg(0, signal.SIGKILL)


def rows_by_views(spark: Any, out: Store) -> dict[str, int] | None:
    """Run `views.sql` as it is in the store, and count."""
    if not out.exists("views.sql"):
        return None
    for line in out.read("views.sql").decode().splitlines():
        if not line.startswith("--"):
            spark.sql(line.rstrip(";"))
    return {name: spark.table(name).count() for name in TABLES}


def main(out: Store, form: str, conf: dict[str, str], step: str, master: str) -> None:
    locks.RENEW_S, locks.LEASE_S = 1.0, 5.0  # who was killed is soon forgotten
    is_cluster = not master.startswith("local")
    memory = "512m" if is_cluster else None
    spark = session(settings=Settings(master, "768m", memory, conf=tuple(conf.items()), is_small=not is_cluster))
    if is_cluster:
        places = spark.sparkContext.parallelize(range(8), 8).mapPartitions(lambda _: [os.getppid()]).collect()
        assert len(set(places)) == 2, "two executors"
    print(MARK + json.dumps(rows_by_views(spark, out)), flush=True)
    replace = Store.replace
    if step == "between two tables":
        groups.group_metadata = die
    elif step == "before the tables count":
        Store.replace = lambda store, path, data: die() if path == published.NAME else replace(store, path, data)
    elif step == "before the old ones are removed":
        published.remove_builds = die
    build(spark, out, form=form)


if __name__ == "__main__":
    where, *words = json.loads(sys.argv[1])
    main(Store.of(where), *words)
