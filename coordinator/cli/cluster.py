"""The cluster that a command speaks to, as the command line and the environment name it. Not a subcommand."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

from coordinator.addresses import EXPECTED, parse_addresses
from coordinator.cli import fail
from coordinator.client import ClientError, Security
from coordinator.client import cluster as any_cluster
from coordinator.client.cluster import PAUSE_SECONDS, TIMEOUT_SECONDS, BrokerError, check
from coordinator.setting import ConfigError

__all__ = ["PAUSE_SECONDS", "TIMEOUT_SECONDS", "BrokerError", "Cluster", "UsageError", "act", "check"]

BOOTSTRAP_VARIABLE: Final = "MUSTER_BOOTSTRAP"
COMMAND_CONFIG_VARIABLE: Final = "MUSTER_COMMAND_CONFIG"
BOOTSTRAP_DEFAULT: Final = ("127.0.0.1:9092",)


class UsageError(ClientError):
    """An argument cannot be meant as it is. The message is one line; the exit code is 2."""


class Cluster(any_cluster.Cluster):
    """The brokers behind the address that was given."""

    @classmethod
    def of(cls, args: argparse.Namespace) -> Self:
        """Connect as the command line and the environment say. Raises ClientError."""
        timeout = args.timeout or TIMEOUT_SECONDS
        addresses, security = bootstrap_of(args), security_of(args, timeout)
        try:
            return cls(addresses, timeout, security, _report_wait)
        except ClientError as error:
            if addresses is BOOTSTRAP_DEFAULT:
                raise ClientError(f"{error} (give --bootstrap-server or {BOOTSTRAP_VARIABLE})") from None
            raise


def act(command: str, actions: Mapping[str, Callable[[Cluster, Any], int]], args: argparse.Namespace) -> int:
    """Do the action of a command that was asked for, on its cluster. Returns the exit code."""
    try:
        with Cluster.of(args) as cluster:
            return actions[args.action](cluster, args)
    except UsageError as error:
        return fail(command, error, 2)
    except ClientError as error:
        return fail(command, error)


def bootstrap_of(args: argparse.Namespace) -> Sequence[str]:
    """Return the addresses to try: those of `--bootstrap-server`, of the environment, or the default. Raises
    UsageError."""
    if args.bootstrap_server:
        given: Sequence[str] = args.bootstrap_server
        return given
    text = os.environ.get(BOOTSTRAP_VARIABLE, "")
    try:
        return parse_addresses(text) if text else BOOTSTRAP_DEFAULT
    except ValueError:
        raise UsageError(f"invalid {BOOTSTRAP_VARIABLE} {text!r}: expected {EXPECTED}") from None


def security_of(args: argparse.Namespace, timeout: float) -> Security | None:
    """Return how connections are secured, by `--command-config` or the environment. Raises UsageError."""
    file = args.command_config or os.environ.get(COMMAND_CONFIG_VARIABLE, "")
    if not file:
        return None
    from coordinator.client.command_config import CommandConfig  # most commands connect plainly

    try:
        return CommandConfig(file, timeout)
    except ConfigError as error:
        raise UsageError(str(error)) from None


def _report_wait(address: str) -> None:
    """Tell a person what the command waits for; a script's standard error stays empty."""
    if sys.stderr.isatty():
        print(f"waiting for {address} ...", file=sys.stderr)
