"""Install and run released clients of other languages against a live server, one line a check.

    python -m tests.compat.foreign [CLIENT ...] [--cache DIR] [--protocol classic|consumer]

CLIENT is java, kafka-streams, kafka-share-consumer, franz-go, sarama, kafkajs, platformatic, kafka-tools,
kafka-streams-tools, kafka-python-suite, franz-go-suite, or all. Exit code 1 when a check
failed. Needs the languages' own tools: Java 17 and Maven, Go, Node with npm.
"""

import argparse
import sys
from pathlib import Path

from tests.compat.foreign import applications, sharing, streams_tools, suites, tools, upgrade, worker
from tests.compat.foreign.clients import CLIENTS, cache_directory
from tests.compat.foreign.failover import Failover
from tests.compat.foreign.report import Report
from tests.compat.foreign.story import Story

ALONE = (
    "kafka-tools",
    "kafka-streams-tools",
    "kafka-streams",
    "kafka-share-consumer",
    *suites.SUITES,
)  # what is no client in the one story


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.foreign", description=__doc__.splitlines()[0])
    parser.add_argument("client", nargs="*", default="all", choices=[*CLIENTS, *ALONE, "all"], metavar="CLIENT")
    parser.add_argument("--cache", help="where installed clients stay (~/.cache/muster/foreign, MUSTER_FOREIGN_CACHE)")
    parser.add_argument("--protocol", choices=("classic", "consumer"), help="only this group protocol")
    args = parser.parse_args()
    cache = cache_directory(args.cache)
    report = Report()
    for name in [*CLIENTS, *ALONE] if "all" in args.client else args.client:
        if name == "kafka-tools":
            tools.run(report)
        elif name == "kafka-streams-tools":
            streams_tools.run(report)
        elif name == "kafka-streams":
            applications.run(cache, report)
        elif name == "kafka-share-consumer":
            sharing.run(cache, report)
        elif name in suites.SUITES:
            suites.run(suites.SUITES[name], cache, report)
        else:
            run_client(name, cache, args.protocol, report)
    return report.end()


def run_client(name: str, cache: Path, only: str | None, report: Report) -> None:
    client = CLIENTS[name]
    command: list[str] = []
    with report.check(f"{name} {client.version}: installed"):
        command = client.install(cache)
    if command:
        for protocol in client.protocols:
            if only in (None, protocol):
                Story(client, command, protocol, report).run()
                Failover(client, command, protocol, report).run()
                if protocol in client.works:
                    worker.run(name, command, protocol, report)
        if client.upgrades and only is None:
            upgrade.run(name, command, report)


if __name__ == "__main__":
    sys.exit(main())
