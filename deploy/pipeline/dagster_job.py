"""Every hour: read on, make the tables anew, write the report. For Dagster 1, with Muster installed beside it.

`MUSTER_LOGS` and `MUSTER_TABLES` name the logs and the tables. Credentials of an object store come from its own chain.
"""

import os
import subprocess

from dagster import AssetExecutionContext, Definitions, ScheduleDefinition, asset, define_asset_job

PROBLEMS = 3  # the exit code when the logs have problems: the tables were written all the same


def run(context: AssetExecutionContext, *words: str) -> None:
    done = subprocess.run(["muster", "pipeline", *words], capture_output=True, text=True, check=False)
    context.log.info(done.stdout + done.stderr)
    if done.returncode not in (0, PROBLEMS):
        raise RuntimeError(done.stderr.strip().splitlines()[-1])


@asset
def raw_tables(context: AssetExecutionContext) -> None:
    """What the logs hold, and no more than was read before."""
    run(context, "ingest", os.environ["MUSTER_LOGS"], "--out", os.environ["MUSTER_TABLES"])


@asset(deps=[raw_tables])
def derived_tables(context: AssetExecutionContext) -> None:
    """All tables, published in one step."""
    run(context, "build", "--out", os.environ["MUSTER_TABLES"])


@asset(deps=[derived_tables])
def report(context: AssetExecutionContext) -> None:
    """One page."""
    run(context, "report", "--tables", os.environ["MUSTER_TABLES"], "--out", "groups.html")


hourly = ScheduleDefinition(job=define_asset_job("muster_pipeline"), cron_schedule="0 * * * *")
definitions = Definitions(assets=[raw_tables, derived_tables, report], schedules=[hourly])
