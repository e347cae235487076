"""List, set and delete SCRAM users.

It speaks Kafka's own protocol, so it works with Apache Kafka as well. The password is read from the terminal or from
standard input, and never leaves this machine: the broker gets what SCRAM makes of it."""

import argparse
import getpass
import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from coordinator.cli import fail
from coordinator.cli.cluster import Cluster, UsageError, act, check
from coordinator.cli.parser import add_actions, add_broker_options, add_json_option, integer, one_of
from coordinator.cli.tables import print_json, print_table
from coordinator.client.explanations import explain
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialDeletion,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUserName,
)

EXAMPLES: Final = """\
muster users set till                        asks for the password
muster users set till < password.txt
muster users list
muster users delete till --mechanism SCRAM-SHA-256"""

MECHANISMS: Final = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}  # Kafka's number, the hash
ITERATIONS: Final = 4_096
ITERATIONS_MAX: Final = 16_384  # as in Kafka
SALT_BYTES: Final = 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    listing = actions.add_parser("list", help="users with their mechanisms")
    listing.add_argument("user", nargs="*", metavar="USER", help="all users if none is named")
    setting = actions.add_parser("set", help="make a user, or change its password")
    setting.add_argument("user", metavar="USER")
    setting.add_argument("--iterations", type=integer(ITERATIONS, ITERATIONS_MAX), default=ITERATIONS, metavar="N",
                         help=f"how often the password is hashed ({ITERATIONS})")  # fmt: skip
    deleting = actions.add_parser("delete", help="delete users, or one mechanism of theirs")
    deleting.add_argument("user", nargs="+", metavar="USER")
    for action in (setting, deleting):
        action.add_argument("--mechanism", action="append", **one_of(tuple(MECHANISMS)), metavar="MECHANISM",
                            help="SCRAM-SHA-256 or SCRAM-SHA-512; both if it is not given")  # fmt: skip
    for action in (listing, setting, deleting):
        add_json_option(action)
        add_broker_options(action)


def run(args: argparse.Namespace) -> int:
    return act("users", ACTIONS, args)


def _list(cluster: Cluster, args: argparse.Namespace) -> int:
    code, rows = 0, []
    for user, mechanisms in _mechanisms_of(cluster, args.user).items():
        if isinstance(mechanisms, str):
            code = fail("users", f"cannot list {user}: {mechanisms}")
            continue
        rows += [{"user": user, "mechanism": name, "iterations": rounds} for name, rounds in mechanisms]
    if args.json:
        print_json(rows)
    else:
        print_table(("USER", "MECHANISM", "ITERATIONS"), [list(row.values()) for row in rows])
    return code


def _mechanisms_of(cluster: Cluster, users: Sequence[str]) -> dict[str, list[tuple[str, int]] | str]:
    """Return the mechanisms of each user with their iterations, or why there are none."""
    named = tuple(DescribeUserScramCredentialsRequestUserName(user) for user in dict.fromkeys(users))
    response = cluster.any.ask(DescribeUserScramCredentialsRequest(named or None))
    check("list users", response.error_code, response.error_message)
    names = {number: name for name, (number, _) in MECHANISMS.items()}
    return {
        one.user: explain(one.error_code, one.error_message)
        if one.error_code
        else [(names.get(info.mechanism, str(info.mechanism)), info.iterations) for info in one.credential_infos]
        for one in sorted(response.results, key=lambda one: one.user)
    }


def _set(cluster: Cluster, args: argparse.Namespace) -> int:
    password = _read_password(args.user)
    upsertions = []
    for mechanism in dict.fromkeys(args.mechanism or MECHANISMS):
        number, digest = MECHANISMS[mechanism]
        salt = os.urandom(SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(digest, password, salt, args.iterations)
        upsertions.append(
            AlterUserScramCredentialsRequestScramCredentialUpsertion(args.user, number, args.iterations, salt, salted)
        )
    return _alter(cluster, "set", [AlterUserScramCredentialsRequest(upsertions=(one,)) for one in upsertions], args)


def _read_password(user: str) -> bytes:
    """Read a password from the terminal, twice, or a line of standard input, as UTF-8. Raises UsageError."""
    try:
        return _read_line(user).encode()
    except UnicodeError:
        raise UsageError("invalid password: expected UTF-8") from None


def _read_line(user: str) -> str:
    if sys.stdin.isatty():
        password = getpass.getpass(f"password of {user}: ")
        if getpass.getpass("the same again: ") != password:
            raise UsageError("the passwords differ")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise UsageError("invalid password: expected a line on standard input that is not empty")
    return password


def _delete(cluster: Cluster, args: argparse.Namespace) -> int:
    """Delete the mechanisms that are named, or those that each user has."""
    code, deletions = 0, []
    for user, mechanisms in _mechanisms_of(cluster, args.user).items():
        if isinstance(mechanisms, str):
            code = fail("users", f"cannot delete {user}: {mechanisms}")
            continue
        for name in dict.fromkeys(args.mechanism or [name for name, _ in mechanisms]):
            deletions.append(AlterUserScramCredentialsRequestScramCredentialDeletion(user, MECHANISMS[name][0]))
    requests = [AlterUserScramCredentialsRequest(deletions=(one,)) for one in deletions]
    return max(code, _alter(cluster, "delete", requests, args))


def _alter(
    cluster: Cluster, verb: str, requests: Sequence[AlterUserScramCredentialsRequest], args: argparse.Namespace
) -> int:
    """Send the requests, each about one mechanism: a broker refuses one with two of the same user."""
    failed: dict[str, str] = {}
    done: dict[str, None] = {}
    for one in (result for request in requests for result in cluster.any.ask(request).results):
        if one.error_code:
            failed[one.user] = explain(one.error_code, one.error_message, SENTENCES)
        else:
            done[one.user] = None
    for user, explanation in failed.items():
        fail("users", f"cannot {verb} {user}: {explanation}")
    good = [user for user in done if user not in failed]
    if args.json:
        print_json(good)
    else:
        for user in good:
            print(f"{'set' if verb == 'set' else 'deleted'} {user}")
    return 1 if failed else 0


SENTENCES: Final[Mapping[int, str]] = {ErrorCode.RESOURCE_NOT_FOUND: "the user has no such mechanism"}
ACTIONS: Final = {"list": _list, "set": _set, "delete": _delete}
