"""List, add and remove ACLs: who may do what with which topics, groups and transactional ids.

It speaks Kafka's own protocol, so it works with Apache Kafka as well. The broker needs an authorizer
(`--set authorizer.class.name=...`), or it refuses."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

from coordinator.cli import fail
from coordinator.cli.cluster import Cluster, UsageError, act, check
from coordinator.cli.parser import add_actions, add_broker_options, add_json_option, one_of
from coordinator.cli.tables import count, print_json, print_table
from coordinator.client.explanations import explain
from coordinator.core.acls.names import ANY, CLUSTER_NAME, WILDCARD, Operation, Pattern, Permission, Resource
from protocol.messages.create_acls import CreateAclsRequest, CreateAclsRequestAclCreation
from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestDeleteAclsFilter
from protocol.messages.describe_acls import DescribeAclsRequest

EXAMPLES: Final = """\
muster acls list --topic orders
muster acls add --allow-principal User:till --operation read --topic orders --group shop
muster acls add --allow-principal User:till --consumer --topic orders --group shop
muster acls add --allow-principal User:app --producer --topic app- --prefixed --transactional-id app-1
muster acls remove --principal User:till --topic orders"""

OPERATIONS: Final = {one.name.lower().replace("_", "-"): one for one in Operation}
PRINCIPAL: Final = "User:NAME"
PRODUCER: Final = {  # as kafka-acls.sh --producer has it
    Resource.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    Resource.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
CONSUMER: Final = {
    Resource.TOPIC: (Operation.READ, Operation.DESCRIBE),
    Resource.GROUP: (Operation.READ,),
}


class Acl(NamedTuple):
    """One ACL, with Kafka's numbers."""

    resource: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    listing = actions.add_parser("list", help="ACLs: all, or those about some resources or of a principal")
    adding = actions.add_parser("add", help="allow or deny something")
    removing = actions.add_parser("remove", help="remove ACLs: those of a principal, about some resources, or both")
    for action in (listing, adding, removing):
        _add_resources(action)
    for action in (listing, removing):
        action.add_argument("--principal", metavar=PRINCIPAL, help="only those of this principal")
    for verb in ("allow", "deny"):
        adding.add_argument(f"--{verb}-principal", action="append", default=[], metavar=PRINCIPAL,
                            help=f"{verb} it to this principal; User:* is everybody; may be given again")  # fmt: skip
    adding.add_argument("--host", default=WILDCARD, metavar="ADDRESS", help="only from this address; any by default")
    adding.add_argument("--operation", action="append", default=[], **one_of(tuple(OPERATIONS)), metavar="OPERATION",
                        help=f"{', '.join(OPERATIONS)}; may be given again")  # fmt: skip
    adding.add_argument("--producer", action="store_true", help="all that a producer to the topics needs")
    adding.add_argument("--consumer", action="store_true", help="all that a consumer of the topics in the groups needs")
    for action in (listing, adding, removing):
        add_json_option(action)
        add_broker_options(action)


def _add_resources(parser: argparse.ArgumentParser) -> None:
    for option in ("topic", "group", "transactional-id"):
        parser.add_argument(
            f"--{option}", action="append", default=[], metavar="NAME", help="may be given again; * is all"
        )
    parser.add_argument("--cluster", action="store_true", help="the cluster itself")
    parser.add_argument(
        "--prefixed", action="store_true", help="the names are beginnings of names; without one, all such ACLs"
    )


def run(args: argparse.Namespace) -> int:
    return act("acls", ACTIONS, args)


def _list(cluster: Cluster, args: argparse.Namespace) -> int:
    found = sorted({acl for one in _filters(args) for acl in _describe(cluster, one)})
    _print(found, args.json)
    return 0


def _describe(cluster: Cluster, wanted: DeleteAclsRequestDeleteAclsFilter) -> Iterator[Acl]:
    request = DescribeAclsRequest(
        wanted.resource_type_filter, wanted.resource_name_filter, wanted.pattern_type_filter, wanted.principal_filter,
        wanted.host_filter, wanted.operation, wanted.permission_type,
    )  # fmt: skip
    response = cluster.any.ask(request)
    check("list ACLs", response.error_code, response.error_message)
    for resource in response.resources:
        for one in resource.acls:
            yield Acl(resource.resource_type, resource.resource_name, resource.pattern_type, one.principal, one.host,
                      one.operation, one.permission_type)  # fmt: skip


def _add(cluster: Cluster, args: argparse.Namespace) -> int:
    wanted = list(dict.fromkeys(_read_acls(args)))
    response = cluster.any.ask(CreateAclsRequest(tuple(CreateAclsRequestAclCreation(*one) for one in wanted)))
    code, added = 0, []
    for acl, result in zip(wanted, response.results, strict=True):
        if result.error_code:
            code = fail("acls", f"cannot add {_sentence(acl)}: {explain(result.error_code, result.error_message)}")
        else:
            added.append(acl)
    _print(added, args.json)
    return code


def _remove(cluster: Cluster, args: argparse.Namespace) -> int:
    if args.principal is None and not _resources(args):
        raise UsageError("missing one of --principal --topic --group --transactional-id --cluster")
    response = cluster.any.ask(DeleteAclsRequest(tuple(_filters(args))))
    removed: set[Acl] = set()
    for result in response.filter_results:
        check("remove ACLs", result.error_code, result.error_message)
        for one in result.matching_acls:
            check("remove an ACL", one.error_code, one.error_message)
            removed.add(Acl(one.resource_type, one.resource_name, one.pattern_type, one.principal, one.host,
                            one.operation, one.permission_type))  # fmt: skip
    if not args.json:
        print(f"removed {count(len(removed), 'ACL')}")
    _print(sorted(removed), args.json)
    return 0


def _resources(args: argparse.Namespace) -> list[tuple[Resource, str]]:
    """Return the resources that the options name."""
    named: Iterable[tuple[Resource, Sequence[str]]] = (
        (Resource.TOPIC, args.topic),
        (Resource.GROUP, args.group),
        (Resource.TRANSACTIONAL_ID, args.transactional_id),
        (Resource.CLUSTER, [CLUSTER_NAME] if args.cluster else []),
    )
    return [(resource, name) for resource, names in named for name in names]


def _pattern(args: argparse.Namespace, resource: Resource) -> Pattern:
    return Pattern.PREFIXED if args.prefixed and resource is not Resource.CLUSTER else Pattern.LITERAL


def _filters(args: argparse.Namespace) -> Iterator[DeleteAclsRequestDeleteAclsFilter]:
    """Yield what ACLs are to match: one filter for each resource, or one for all."""
    of = {"principal_filter": args.principal, "operation": ANY, "permission_type": ANY}
    for resource, name in _resources(args):
        yield DeleteAclsRequestDeleteAclsFilter(resource, name, _pattern(args, resource), **of)
    if not _resources(args):
        yield DeleteAclsRequestDeleteAclsFilter(ANY, None, Pattern.PREFIXED if args.prefixed else ANY, **of)


def _read_acls(args: argparse.Namespace) -> Iterator[Acl]:
    """Yield the ACLs to add. Raises UsageError where there is nothing to add."""
    principals = [(one, Permission.ALLOW) for one in args.allow_principal]
    principals += [(one, Permission.DENY) for one in args.deny_principal]
    if not principals:
        raise UsageError("missing one of --allow-principal --deny-principal")
    if wrong := [one for one, _ in principals if ":" not in one]:
        raise UsageError(f"invalid principal {wrong[0]!r}: expected {PRINCIPAL}")
    resources = _resources(args)
    if not resources:
        raise UsageError("missing one of --topic --group --transactional-id --cluster")
    if not (args.operation or args.producer or args.consumer):
        raise UsageError("missing one of --operation --producer --consumer")
    if args.consumer and not (args.topic and args.group):
        raise UsageError("invalid --consumer: expected --topic and --group as well")
    if args.producer and not args.topic:
        raise UsageError("invalid --producer: expected --topic as well")
    for (resource, name), (principal, permission) in product(resources, principals):
        operations = [OPERATIONS[one] for one in args.operation]
        operations += PRODUCER.get(resource, ()) if args.producer else ()
        operations += CONSUMER.get(resource, ()) if args.consumer else ()
        for operation in operations:
            yield Acl(resource, name, _pattern(args, resource), principal, args.host, operation, permission)


def _words(acl: Acl) -> dict[str, Any]:
    return {
        "resource": _name(Resource, acl.resource),
        "name": acl.name,
        "pattern": _name(Pattern, acl.pattern),
        "permission": _name(Permission, acl.permission),
        "principal": acl.principal,
        "operation": _name(Operation, acl.operation),
        "host": acl.host,
    }


def _name(kind: Any, number: int) -> str:
    """Return Kafka's word for a number; the number itself if it is newer than this program."""
    return str(kind(number).name.lower().replace("_", "-")) if number in kind.__members__.values() else str(number)


def _sentence(acl: Acl) -> str:
    words = _words(acl)
    return f"{words['permission']} {acl.principal} {words['operation']} on {words['resource']} {acl.name}"


def _print(acls: Iterable[Acl], is_json: bool) -> None:
    words = [_words(one) for one in acls]
    if is_json:
        print_json(words)
    elif words:
        head = ("RESOURCE", "NAME", "PATTERN", "PERMISSION", "PRINCIPAL", "OPERATION", "HOST")
        print_table(head, [list(one.values()) for one in words])


ACTIONS: Final = {"list": _list, "add": _add, "remove": _remove}
