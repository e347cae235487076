"""Servers that hold something of each kind, more of it or less, and requests of each API that ask for all there is.

A response that is longer from the server that holds more is one whose length the state decides.
"""

import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from coordinator.core.catalog.catalog import GROUP
from coordinator.core.decision import Done, Outcome, Parked, Silent
from coordinator.core.principal import USER, Principal
from coordinator.core.share_state.values import UNCHECKED_EPOCH, StateBatch, StateKey, StateUpdate
from protocol import record_batch
from protocol.apis import API
from protocol.codec import decode_request, encode_request, encode_response
from protocol.error_codes import error_walker
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages import alter_client_quotas, alter_user_scram_credentials
from protocol.records import Record
from protocol.schema import Field, Schema
from protocol.wire import NULLABLE_BYTES, NULLABLE_STRING, Array, Nullable
from tests import requests
from tests.worst.server import GROUPS, Size, WorstServer
from tests.worst.shapes import Names, Path, arrays, make_scalar

T = TypeVar("T")

KINDS: Final = ("g", *GROUPS.values())  # what the names of groups begin with


class GrownServer(WorstServer):
    """A server that holds `count` of everything: topics, partitions, groups, members, offsets, transactions, rules."""

    def __init__(self, count: int) -> None:
        super().__init__(Size(count, 1, count, count, count, count, count, count, 4 * count))
        self._principal = Principal(USER, "operator")

    def _fill(self, size: Size) -> None:
        super()._fill(size)
        while self.node.engine.unfinished:  # a share group begins its states so
            self.node.engine.long_requests.step()
            self.node.engine.flush()
        self._fill_catalog(size.groups)
        self._fill_logs(size.groups)
        for _ in range(size.members):
            self._handle(11, 3, requests.join("g0", protocols=requests.want(("t0",))))
        for _ in range(2):  # the initial delay, and once more because members have joined meanwhile
            self.pass_time(3_000)
            self.fire()
        self.node.engine.replies()

    def _fill_catalog(self, count: int) -> None:
        quotas, scram = alter_client_quotas, alter_user_scram_credentials
        for number in range(count):
            self.ask(44, 1, requests.alter_configs(GROUP, f"g{number}", {"consumer.session.timeout.ms": "50000"}))
            entity = quotas.AlterClientQuotasRequestEntityData("user", f"u{number}")
            rate = quotas.AlterClientQuotasRequestOpData("producer_byte_rate", 1e6)
            entry = quotas.AlterClientQuotasRequestEntryData((entity,), (rate,))
            self.ask(49, 1, quotas.AlterClientQuotasRequest((entry,)))
            user = scram.AlterUserScramCredentialsRequestScramCredentialUpsertion(f"u{number}", 1, 4096, b"s", b"p")
            self.ask(51, 0, scram.AlterUserScramCredentialsRequest(upsertions=(user,)))

    def _fill_logs(self, count: int) -> None:
        for number in range(count):
            records = [Record(None, b"x", timestamp=1)]
            batch = record_batch.encode(records, producer_id=number, producer_epoch=0, base_sequence=0)
            self.ask(0, 9, requests.produce("t0", {0: batch}))
        for index in range(count):
            key = StateKey("s0", self.node.world.ledger.catalog.topics_by_name["t0"].id, index)
            runs = tuple([StateBatch(2 * at, 2 * at, 2, 1) for at in range(1, 1 + (count if not index else 1))])
            update = StateUpdate(UNCHECKED_EPOCH, UNCHECKED_EPOCH, 0, -1, runs)
            self.node.engine.share_states.initialize(key, 1, 0, self.now_ms)
            code = self.node.engine.share_states.write(key, update, self.now_ms)
            assert code == ErrorCode.NONE, code.name

    def answer(self, data: bytes) -> Outcome:
        """Return what comes of a request: `Parked` if it waits for something else than its next step."""
        request = decode_request(data)
        outcome = self._handle(request.api_key, request.version, request.body)
        while isinstance(outcome, Parked) and self.node.engine.unfinished:
            self.node.engine.long_requests.step()
            outcome = next((one for ticket, one in self.node.engine.replies() if ticket == self._ticket), outcome)
        self.node.engine.flush()
        return outcome

    def names(self, group: str) -> Names:
        """Return what there is, with groups of a kind."""
        begins = {"topic": "t", "group": group, "transaction": "x", "member": "m"}
        return Names(lambda kind, number: f"{begins.get(kind, 'u')}{number}", lambda _: self._ids[0], self._partitions)


def requests_of(api: API, version: int, server: GrownServer) -> list[bytes]:
    """Return requests that name one thing or none: by each array, with nulls where there may be some, or with names."""
    frames = []
    for group in KINDS:
        for path in ((), *arrays(api.request, version)):
            for with_nulls in (True, False):
                request = _build(api.request, version, path, server.names(group), with_nulls=with_nulls)
                with suppress(ProtocolError):
                    frames.append(encode_request(api.key, version, 1, "c", request)[4:])
    return frames


def _build(schema: Schema, version: int, path: Path, names: Names, *, with_nulls: bool) -> Any:
    """A message whose array at `path` has one element, and whose other arrays have none."""
    values: dict[str, Any] = {}
    for field in schema.fields:
        if field.is_in(version):
            rest = path[1:] if path[:1] == (field.name,) else None
            values[field.name] = _value(field, version, rest, names, with_nulls=with_nulls)
    return schema.cls(**values)


def _value(field: Field, version: int, rest: Path | None, names: Names, *, with_nulls: bool) -> Any:
    kind: Any = field.type
    if rest is None and with_nulls and _may_be_null(field, version):
        return None
    inner = kind.of if isinstance(kind, Nullable | Array) else kind
    if isinstance(kind, Array) and rest is None:
        return ()
    if isinstance(inner, Schema):
        value = _build(inner, version, rest or (), names, with_nulls=with_nulls)
    else:
        value = make_scalar(field.name, inner, 0, names)
    return (value,) if isinstance(kind, Array) else value


def _may_be_null(field: Field, version: int) -> bool:
    kind = field.type
    if field.nullable_since is not None:
        return version >= field.nullable_since
    return isinstance(kind, Nullable) or kind in (NULLABLE_STRING, NULLABLE_BYTES) or getattr(kind, "nullable", False)


def length_of(api: API, version: int, outcome: Outcome) -> int:
    """Return how long a response is, 0 if there is none yet."""
    return len(encode_response(api.key, version, 1, outcome.response)) if isinstance(outcome, Done) else 0


def is_refused(outcome: Outcome) -> bool:
    """Return whether the budget of responses has refused a request, and the client gets to know it."""
    if isinstance(outcome, Done):
        return ErrorCode.POLICY_VIOLATION in error_walker(type(outcome.response))(outcome.response)
    return isinstance(outcome, Silent) and outcome.closes == "response memory"


def in_a_copy(action: Callable[[], T]) -> T:
    """Do something in a copy of this process, and return what it returns: what it changes is forgotten."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(action(), pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    found: T = pickle.loads(data)
    return found
