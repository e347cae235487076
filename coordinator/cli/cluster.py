"""The brokers that an admin command asks: any of them, a group's coordinator, a partition's leader. Not a subcommand.

Muster is one broker and each of these is itself; a real Kafka has several, and the commands work there too.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final

from coordinator.client import Client, ClientError
from coordinator.server import listener
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.schema import Message

WAIT_SECONDS: Final = 15.0  # for a coordinator that is loading, or being elected
PAUSE_SECONDS: Final = 0.2
NOT_YET: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


class Refused(ClientError):  # noqa: N818  # a refusal, as in the other layers; it reads as one
    """The broker answered an error code. One line, for a person: what was asked, and Kafka's name of the error."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        super().__init__(f"{what}: {name_of(code)}" + (f" ({message.rstrip('.')})" if message else ""))
        self.code = code


def name_of(code: int) -> str:
    """Kafka's name of an error code; a number where it is newer than what is known here."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def check(what: str, code: int, message: str | None = None) -> None:
    """Raise Refused unless the code is NONE."""
    if code:
        raise Refused(what, code, message)


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    """The options that all commands which ask a broker share."""
    parser.add_argument(
        "--bootstrap", type=_bootstrap, metavar="HOST:PORT", default="127.0.0.1:9092", help="a broker to ask first"
    )
    parser.add_argument("--json", action="store_true", help="for programs: JSON instead of tables")


def _bootstrap(text: str) -> str:
    try:
        listener.address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


class Cluster:
    """The brokers behind one address, with a connection to each that was needed."""

    def __init__(self, bootstrap: str) -> None:
        """Connect to one of them. Raises ClientError."""
        self.any = Client.to(bootstrap)
        self._clients = {bootstrap: self.any}
        self._coordinators: dict[str, Client] = {}

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            client.close()

    def metadata(self, topics: Sequence[str] | None) -> MetadataResponse:
        """What is known of these topics, of all with None. Asking creates none of them."""
        asked = None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics)
        answer: MetadataResponse = self.any.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        return answer

    def brokers(self) -> dict[int, Client]:
        """A connection to each broker, by its id."""
        return {one.node_id: self._client(one.host, one.port) for one in self.metadata(()).brokers}

    def ask_coordinator(
        self, group: str, message: Message, codes: Callable[[Any], Iterable[int]], *, up_to: int | None = None
    ) -> Any:
        """Ask the group's coordinator. While one of the answer's `codes` says that it is not ready, ask again."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            if group not in self._coordinators:
                self._coordinators[group] = self._find(group, deadline)
            answer = self._coordinators[group].ask(message, up_to=up_to)
            if time.monotonic() > deadline or NOT_YET.isdisjoint(codes(answer)):
                return answer
            del self._coordinators[group]
            time.sleep(PAUSE_SECONDS)

    def _find(self, group: str, deadline: float) -> Client:
        while True:
            # Versions up to 3 read the key, later ones the keys.
            answer = self.any.ask(FindCoordinatorRequest(key=group, coordinator_keys=(group,)))
            found = answer.coordinators[0] if answer.coordinators else answer
            if found.error_code not in NOT_YET or time.monotonic() > deadline:
                return self._found(group, found)
            time.sleep(PAUSE_SECONDS)

    def _found(self, group: str, found: FindCoordinatorResponse) -> Client:
        check(f"the coordinator of {group}", found.error_code, found.error_message)
        return self._client(found.host, found.port)

    def _client(self, host: str, port: int) -> Client:
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if address not in self._clients:
            self._clients[address] = Client.to(address)
        return self._clients[address]
