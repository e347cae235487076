"""List, set and unset quotas of clients.

It speaks Kafka's own protocol, so it works with Apache Kafka as well."""

import argparse
from collections.abc import Mapping
from typing import Any, Final

from coordinator.cli import fail
from coordinator.cli.cluster import Cluster, UsageError, act, check
from coordinator.cli.parser import add_actions, add_broker_options, add_json_option, name_and_value
from coordinator.cli.tables import print_json, print_table
from coordinator.client.explanations import explain
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasRequestOpData,
)
from protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponentData,
)

EXAMPLES: Final = """\
muster quotas list
muster quotas set --user till --client-id scanner producer_byte_rate=1048576
muster quotas set --client-defaults request_percentage=50
muster quotas unset --user till --client-id scanner producer_byte_rate"""

TYPES: Final = {"user": "user", "client_id": "client-id", "ip": "ip"}  # by the name of the option
DEFAULTS: Final = {"user_defaults": "user", "client_defaults": "client-id", "ip_defaults": "ip"}
THIS_NAME, THE_DEFAULT = 0, 1  # how a request describes an entity
DEFAULT: Final = "<default>"
OF_CLIENTS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
OF_ADDRESSES: Final = ("connection_creation_rate",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    listing = actions.add_parser("list", help="quotas: all, or those that concern somebody")
    setting = actions.add_parser("set", help="set quotas")
    setting.add_argument("quota", nargs="+", type=name_and_value("NAME=NUMBER"), metavar="NAME=NUMBER",
                         help="such as producer_byte_rate=1048576")  # fmt: skip
    unsetting = actions.add_parser("unset", help="remove quotas")
    unsetting.add_argument("quota", nargs="+", metavar="NAME")
    for action in (listing, setting, unsetting):
        action.add_argument("--user", metavar="NAME", help="a user")
        action.add_argument("--user-defaults", action="store_true", help="every user without a quota of its own")
        action.add_argument("--client-id", metavar="ID", help="a client id")
        action.add_argument("--client-defaults", action="store_true", help="every client id without one of its own")
        action.add_argument("--ip", metavar="ADDRESS", help="an address")
        action.add_argument("--ip-defaults", action="store_true", help="every address without one of its own")
        add_json_option(action)
        add_broker_options(action)


def run(args: argparse.Namespace) -> int:
    return act("quotas", ACTIONS, args)


def _entity(args: argparse.Namespace) -> dict[str, str | None]:
    """Return whom the options name: a name for each type, None for its default. Raises UsageError."""
    given = {kind: getattr(args, option) for option, kind in TYPES.items()}
    if empty := [kind for kind, name in given.items() if name == ""]:
        raise UsageError(f"invalid --{empty[0]} '': expected a name")  # without it, the quota would be of more clients
    named: dict[str, str | None] = {kind: name for kind, name in given.items() if name is not None}
    for option, kind in DEFAULTS.items():
        if getattr(args, option):
            if kind in named:
                raise UsageError(f"invalid --{option.replace('_', '-')}: --{kind} names one")
            named[kind] = None
    return named


def _list(cluster: Cluster, args: argparse.Namespace) -> int:
    components = tuple(
        DescribeClientQuotasRequestComponentData(kind, THE_DEFAULT if name is None else THIS_NAME, name)
        for kind, name in _entity(args).items()
    )
    response = cluster.any.ask(DescribeClientQuotasRequest(components))
    check("list quotas", response.error_code, response.error_message)
    entries = [
        ({one.entity_type: one.entity_name for one in entry.entity}, {one.key: one.value for one in entry.values})
        for entry in response.entries or ()
    ]
    entries.sort(key=lambda entry: _describe(entry[0]))
    if args.json:
        print_json([{"entity": entity, "quotas": values} for entity, values in entries])
    else:
        rows = [[_describe(of), name, _format(value)] for of, values in entries for name, value in values.items()]
        print_table(("ENTITY", "QUOTA", "VALUE"), rows)
    return 0


def _describe(entity: Mapping[str, str | None]) -> str:
    kinds = [kind for kind in TYPES.values() if kind in entity]
    return " ".join(f"{kind}={DEFAULT if entity[kind] is None else entity[kind]}" for kind in kinds)


def _format(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)


def _set(cluster: Cluster, args: argparse.Namespace) -> int:
    return _alter(
        cluster, args, [AlterClientQuotasRequestOpData(name, _number(name, text)) for name, text in args.quota]
    )


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"invalid {name} {text!r}: expected a number") from None


def _unset(cluster: Cluster, args: argparse.Namespace) -> int:
    return _alter(cluster, args, [AlterClientQuotasRequestOpData(name, remove=True) for name in args.quota])


def _alter(cluster: Cluster, args: argparse.Namespace, changes: list[Any]) -> int:
    entity = _entity(args)
    if not entity:
        options = " ".join(f"--{option.replace('_', '-')}" for option in (*TYPES, *DEFAULTS))
        raise UsageError(f"missing one of {options}")
    names = tuple(AlterClientQuotasRequestEntityData(kind, name) for kind, name in entity.items())
    request = AlterClientQuotasRequest((AlterClientQuotasRequestEntryData(names, tuple(changes)),))
    (result,) = cluster.any.ask(request).entries
    if result.error_code:
        explanation = explain(result.error_code, result.error_message)
        known = OF_ADDRESSES if "ip" in entity else OF_CLIENTS
        hint = "" if {one.key for one in changes} <= set(known) else f"; its quotas are {', '.join(known)}"
        return fail("quotas", f"cannot {args.action} quotas of {_describe(entity)}: {explanation}{hint}")
    if args.json:
        print_json({"entity": entity})
    else:
        print(f"{args.action} quotas of {_describe(entity)}")
    return 0


ACTIONS: Final = {"list": _list, "set": _set, "unset": _unset}
