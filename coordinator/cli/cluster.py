"""Connections to a cluster: to any broker, to a group's coordinator, to a partition's leader. Not a subcommand.

Muster is one broker that plays all of these parts; a real Kafka has several brokers, and the commands work there too.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final

from coordinator.cli.addresses import EXPECTED, parse_addresses
from coordinator.cli.explanations import explain
from coordinator.client import Client, ClientError, Security
from coordinator.config import ConfigError
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.schema import Message

BOOTSTRAP_VARIABLE: Final = "MUSTER_BOOTSTRAP"
COMMAND_CONFIG_VARIABLE: Final = "MUSTER_COMMAND_CONFIG"
BOOTSTRAP_DEFAULT: Final = ("127.0.0.1:9092",)
TIMEOUT_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.2
NOT_READY: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


class WrongUse(ClientError):  # noqa: N818  # it is what the user did, and reads as that
    """An argument cannot be meant as it is. The message is one line; the exit code is 2."""


class BrokerError(ClientError):  # a refusal, as in the other layers; it reads as one
    """The broker responded with an error code. The message is one line: what cannot be done, and why."""

    def __init__(self, task: str, code: int, message: str | None = None, sentences: Mapping[int, str] | None = None):
        super().__init__(f"cannot {task}: {explain(code, message, sentences)}")
        self.code = code


def check(task: str, code: int, message: str | None = None, sentences: Mapping[int, str] | None = None) -> None:
    """Raise BrokerError, which says "cannot `task`", unless the code is NONE."""
    if code:
        raise BrokerError(task, code, message, sentences)


class Cluster:
    """The brokers behind a bootstrap address, with a connection to each that was needed."""

    def __init__(
        self, bootstrap: Sequence[str], timeout: float = TIMEOUT_SECONDS, security: Security | None = None
    ) -> None:
        """Connect to the first of the addresses that can be reached. Raises ClientError."""
        self.timeout = timeout
        self._security = security
        self._clients: dict[str, Client] = {}
        self._coordinators: dict[str, Client] = {}
        self.any = self._connect_to_first(bootstrap)

    @classmethod
    def of(cls, args: argparse.Namespace) -> "Cluster":
        """Connect as the command line and the environment say. Raises ClientError."""
        timeout = args.timeout or TIMEOUT_SECONDS
        return cls(bootstrap_of(args), timeout, security_of(args, timeout))

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            client.close()

    def metadata(self, topics: Sequence[str] | None, *, creates: bool = False) -> MetadataResponse:
        """Return the metadata of these topics, of all topics with None. With `creates` the broker may create them.

        Raises ClientError, also for a response that leaves a topic out.
        """
        wanted = None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics)
        response: MetadataResponse = self.any.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=creates))
        check("read the metadata of the cluster", response.error_code)
        if missing := set(topics or ()) - {one.name for one in response.topics}:
            raise ClientError(f"cannot use topic {min(missing)}: the broker says nothing of it")
        return response

    def brokers(self) -> dict[int, Client]:
        """Return a connection to each broker, by its id."""
        return {one.node_id: self._connect(one.host, one.port) for one in self.metadata(()).brokers}

    def ask_coordinator(
        self, group: str, message: Message, codes: Callable[[Any], Iterable[int]], *, up_to: int | None = None
    ) -> Any:
        """Send a request to the group's coordinator, again while one of the response's `codes` says that it is not
        ready."""
        deadline = time.monotonic() + self.timeout
        while True:
            if group not in self._coordinators:
                self._coordinators[group] = self._find_coordinator(group, deadline)
            response = self._coordinators[group].ask(message, up_to=up_to)
            if time.monotonic() > deadline or NOT_READY.isdisjoint(codes(response)):
                return response
            del self._coordinators[group]
            time.sleep(PAUSE_SECONDS)

    def _find_coordinator(self, group: str, deadline: float) -> Client:
        while True:
            # Versions up to 3 read the key, later ones the keys.
            response: FindCoordinatorResponse = self.any.ask(
                FindCoordinatorRequest(key=group, coordinator_keys=(group,))
            )
            coordinator = response.coordinators[0] if response.coordinators else response
            if coordinator.error_code not in NOT_READY or time.monotonic() > deadline:
                check(f"find the coordinator of {group}", coordinator.error_code, coordinator.error_message)
                return self._connect(coordinator.host, coordinator.port)
            time.sleep(PAUSE_SECONDS)

    def _connect(self, host: str, port: int) -> Client:
        return self._connect_to(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    def _connect_to(self, address: str) -> Client:
        if address not in self._clients:
            self._clients[address] = Client.to(
                address, seconds=self.timeout, on_wait=_report_wait, security=self._security
            )
        return self._clients[address]

    def _connect_to_first(self, addresses: Sequence[str]) -> Client:
        complaints = []
        for address in addresses:
            try:
                return self._connect_to(address)
            except ClientError as error:
                complaints.append(str(error))
        raise ClientError("; ".join(complaints))


def bootstrap_of(args: argparse.Namespace) -> Sequence[str]:
    """Return the addresses to try: those of `--bootstrap-server`, of the environment, or the default. Raises
    WrongUse."""
    if args.bootstrap_server:
        given: Sequence[str] = args.bootstrap_server
        return given
    text = os.environ.get(BOOTSTRAP_VARIABLE, "")
    try:
        return parse_addresses(text) if text else BOOTSTRAP_DEFAULT
    except ValueError:
        raise WrongUse(f"invalid {BOOTSTRAP_VARIABLE} {text!r}: expected {EXPECTED}") from None


def security_of(args: argparse.Namespace, timeout: float) -> Security | None:
    """Return how connections are secured, by `--command-config` or the environment. Raises WrongUse."""
    file = args.command_config or os.environ.get(COMMAND_CONFIG_VARIABLE, "")
    if not file:
        return None
    from coordinator.cli.command_config import CommandConfig  # most commands connect plainly

    try:
        return CommandConfig(file, timeout)
    except ConfigError as error:
        raise WrongUse(str(error)) from None


def _report_wait(address: str) -> None:
    """A person sees what a command waits for; a script's standard error stays empty."""
    if sys.stderr.isatty():
        print(f"waiting for {address} ...", file=sys.stderr)
