"""List, set and unset settings of topics, groups and brokers.

It speaks Kafka's own protocol, so it works with Apache Kafka as well. `muster config` is about the settings that
`muster serve` is started with."""

import argparse
from typing import Any, Final

from coordinator.cli import fail
from coordinator.cli.cluster import Cluster, act, check
from coordinator.cli.parser import add_actions, add_broker_options, add_json_option, name_and_value
from coordinator.cli.tables import print_json, print_table
from coordinator.client import ClientError
from coordinator.client.explanations import explain
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestResource,
)

EXAMPLES: Final = """\
muster configs list --topic orders
muster configs list --broker 0 --all
muster configs set --group shop consumer.session.timeout.ms=50000
muster configs unset --topic orders retention.ms"""

KINDS: Final = {"topic": 2, "broker": 4, "group": 32}  # the numbers of the resource types
SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "file",
    5: "default",
    6: "logger",
    7: "metrics",
    8: "group",
}
OF_ITS_OWN: Final = {"topic": (1,), "broker": (2, 3, 4), "group": (8,)}  # sources that are no default
SET, DELETE = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    listing = actions.add_parser("list", help="settings that it has of its own, or all")
    listing.add_argument("--all", action="store_true", help="those that it has by default as well")
    setting = actions.add_parser("set", help="set settings")
    setting.add_argument("setting", nargs="+", type=name_and_value("NAME=VALUE"), metavar="NAME=VALUE")
    unsetting = actions.add_parser("unset", help="go back to the defaults of settings")
    unsetting.add_argument("setting", nargs="+", metavar="NAME")
    for action in (listing, setting, unsetting):
        whose = action.add_mutually_exclusive_group(required=True)
        whose.add_argument("--topic", metavar="NAME", help="of a topic")
        whose.add_argument("--group", metavar="ID", help="of a group")
        whose.add_argument("--broker", metavar="ID", help="of a broker; an empty id is all of them")
        add_json_option(action)
        add_broker_options(action)


def run(args: argparse.Namespace) -> int:
    return act("configs", ACTIONS, args)


def _resource(args: argparse.Namespace) -> tuple[str, str]:
    """Return the kind of what is named, and its name."""
    return next((kind, name) for kind in KINDS if (name := getattr(args, kind)) is not None)


def _ask(cluster: Cluster, kind: str, name: str, request: Any) -> Any:
    """Ask any broker, or the one that is named: it alone knows what it was started with."""
    if kind == "broker" and name.isascii() and name.isdigit():
        brokers = cluster.brokers()
        if int(name) not in brokers:
            raise ClientError(f"no broker {name}: there is {', '.join(map(str, sorted(brokers)))}")
        return brokers[int(name)].ask(request)
    return cluster.any.ask(request)


def _list(cluster: Cluster, args: argparse.Namespace) -> int:
    kind, name = _resource(args)
    request = DescribeConfigsRequest((DescribeConfigsRequestResource(KINDS[kind], name, None),))
    (result,) = _ask(cluster, kind, name, request).results
    check(f"list settings of {kind} {name}", result.error_code, result.error_message)
    found = [
        {
            "name": one.name,
            "value": one.value,
            "source": SOURCES.get(one.config_source, str(one.config_source)),
            "read_only": one.read_only,
            "sensitive": one.is_sensitive,
        }
        for one in sorted(result.configs, key=lambda one: one.name)
        if args.all or one.config_source in OF_ITS_OWN[kind]
    ]
    if args.json:
        print_json(found)
    else:
        rows = [[one["name"], "[hidden]" if one["sensitive"] else one["value"], one["source"]] for one in found]
        print_table(("SETTING", "VALUE", "SET BY"), rows)
    return 0


def _set(cluster: Cluster, args: argparse.Namespace) -> int:
    return _alter(
        cluster, args, [IncrementalAlterConfigsRequestAlterableConfig(name, SET, value) for name, value in args.setting]
    )


def _unset(cluster: Cluster, args: argparse.Namespace) -> int:
    return _alter(
        cluster, args, [IncrementalAlterConfigsRequestAlterableConfig(name, DELETE, None) for name in args.setting]
    )


def _alter(cluster: Cluster, args: argparse.Namespace, changes: list[Any]) -> int:
    kind, name = _resource(args)
    resource = IncrementalAlterConfigsRequestResource(KINDS[kind], name, tuple(changes))
    (result,) = _ask(cluster, kind, name, IncrementalAlterConfigsRequest((resource,))).responses
    if result.error_code:
        explanation = explain(result.error_code, result.error_message)
        hint = "; set it when the broker starts: `muster serve --set`" if "dynamically" in explanation else ""
        return fail("configs", f"cannot {args.action} settings of {kind} {name}: {explanation}{hint}")
    if args.json:
        print_json({"resource": kind, "name": name})
    else:
        print(f"{args.action} settings of {kind} {name or 'all'}")
    return 0


ACTIONS: Final = {"list": _list, "set": _set, "unset": _unset}
