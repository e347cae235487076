"""Connections to a cluster: to any broker, to a group's coordinator, to a partition's leader.

Muster is one broker that plays all of these parts; a real Kafka has several brokers, and the commands work there too.
"""

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from types import TracebackType
from typing import Any, Final, Self

from coordinator.client.connection import AuthenticationError, Client, ClientError, Security
from coordinator.client.explanations import explain
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.schema import Message

TIMEOUT_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.2
GROUP: Final = 0  # types of keys that FindCoordinator takes
TRANSACTION: Final = 1
NOT_READY: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


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
        self,
        bootstrap: Sequence[str],
        timeout: float = TIMEOUT_SECONDS,
        security: Security | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> None:
        """Connect to the first of the addresses whose broker responds; `on_wait` as a client has it. Raises
        ClientError."""
        self.timeout = timeout
        self._security = security
        self._on_wait = on_wait
        self._clients: dict[str, Client] = {}
        self._coordinators: dict[tuple[str, int], Client] = {}  # by name and type
        self.any = self._connect_to_first(bootstrap)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
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

    def brokers(self, only: Container[int] | None = None) -> dict[int, Client]:
        """Return a connection to each broker, or to those of `only`, by their ids."""
        return {
            one.node_id: self._connect(one.host, one.port)
            for one in self.metadata(()).brokers
            if only is None or one.node_id in only
        }

    def ask_coordinator(
        self,
        name: str,
        message: Message,
        codes: Callable[[Any], Iterable[int]],
        *,
        up_to: int | None = None,
        key_type: int = GROUP,
        not_ready: Set[int] = NOT_READY,
    ) -> Any:
        """Send a request to the coordinator of a group, or of a transaction by the `key_type`.

        It is sent again while one of the response's `codes` says that the coordinator is not ready.
        """
        deadline, key = time.monotonic() + self.timeout, (name, key_type)
        while True:
            if key not in self._coordinators:
                self._coordinators[key] = self._find_coordinator(name, key_type, deadline)
            response = self._coordinators[key].ask(message, up_to=up_to)
            if time.monotonic() > deadline or not_ready.isdisjoint(codes(response)):
                return response
            del self._coordinators[key]
            time.sleep(PAUSE_SECONDS)

    def _find_coordinator(self, name: str, key_type: int, deadline: float) -> Client:
        while True:
            # Versions up to 3 read the key, later ones the keys.
            response: FindCoordinatorResponse = self.any.ask(FindCoordinatorRequest(name, key_type, (name,)))
            coordinator = response.coordinators[0] if response.coordinators else response
            if coordinator.error_code not in NOT_READY or time.monotonic() > deadline:
                check(f"find the coordinator of {name}", coordinator.error_code, coordinator.error_message)
                return self._connect(coordinator.host, coordinator.port)
            time.sleep(PAUSE_SECONDS)

    def _connect(self, host: str, port: int) -> Client:
        return self._connect_to(format_address(host, port))

    def _connect_to(self, address: str) -> Client:
        if address not in self._clients:
            self._clients[address] = Client.to(
                address, seconds=self.timeout, on_wait=self._on_wait, security=self._security
            )
        return self._clients[address]

    def _connect_to_first(self, addresses: Sequence[str]) -> Client:
        complaints = []
        for address in addresses:
            try:
                client = self._connect_to(address)
                client.versions(MetadataRequest())  # a broker that is being stopped still accepts connections
                return client
            except AuthenticationError:
                raise  # to try elsewhere may lock the user out
            except ClientError as error:
                complaints.append(str(error))
                if address in self._clients:
                    self._clients.pop(address).close()
        raise ClientError("; ".join(complaints))


def format_address(host: str, port: int) -> str:
    """Return `HOST:PORT`, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
