"""Every hour: read on, make the tables anew, write the report. For Airflow 3, with Muster installed in its workers.

Set the Airflow variables `muster_logs`, `muster_tables` and `muster_report`, the page, as whole paths: each command
runs in a directory of its own, which is removed when it has ended. Credentials of an object store come from its own
chain: the workers' environment, profile or role.
"""

import pendulum
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import dag

LOGS, TABLES = "{{ var.value.muster_logs }}", "{{ var.value.muster_tables }}"
REPORT = "{{ var.value.muster_report }}"
PROBLEMS = 3  # the exit code when the logs have problems: the tables were written all the same


@dag(
    schedule="@hourly",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,  # one reader of logs at a time
    default_args={"retries": 2},  # every step may run again: what was read is not read twice
)
def muster_pipeline() -> None:
    steps = {
        "ingest": f"muster pipeline ingest '{LOGS}' --out '{TABLES}'",
        "build": f"muster pipeline build --out '{TABLES}'",
        "report": f"muster pipeline report --tables '{TABLES}' --out '{REPORT}'",
        "optimize": f"muster pipeline optimize --out '{TABLES}'",
    }
    before = None
    for name, command in steps.items():
        task = BashOperator(task_id=name, bash_command=f"{command} || [ $? -eq {PROBLEMS} ]")
        if before is not None:
            before >> task
        before = task


hourly = muster_pipeline()
