"""A client that leaves between two steps of a request leaves the server as one does that stays. Of every API that changes
something, by each of its arrays."""

import sys
from collections.abc import Iterator
from functools import partial
from typing import Final

import pytest

import coordinator.dataplane.administration
import coordinator.runtime.share_state_requests  # noqa: F401 - before BETWEEN is changed
from coordinator.runtime.snapshot import read_logs
from coordinator.runtime.steps import DONE_TO_THE_END, Checkpoints
from protocol.apis import API, BY_NAME, names_with
from protocol.codec import decode_request, encode_request
from protocol.errors import ProtocolError
from protocol.traits import Trait
from tests.requests import produce
from tests.worst.acceptance import BATCH
from tests.worst.growth import in_a_copy
from tests.worst.server import Size, WorstServer
from tests.worst.shapes import Shape, arrays


def newest(api: API) -> int:
    """Return the latest version that is served."""
    return (api.kafka_4_3 or range(1))[-1]


COUNT: Final = 100  # elements of an array, or fewer
BETWEEN: Final = ("UNITS", "STEP_WORK", "STEP_ENTRIES", "PART_PARTITIONS", "STEP_PARTITIONS")
"""What modules call the work between two checkpoints."""
MEMBERS: Final = {name for name in names_with(Trait.URGENT) if name != "OffsetCommit"}  # decided at once
APIS: Final = sorted(
    name for name in DONE_TO_THE_END - MEMBERS if any(arrays(BY_NAME[name].request, newest(BY_NAME[name])))
)
AT_ONCE: Final = {
    "AddRaftVoter", "AlterConfigs", "AlterPartitionReassignments", "AlterReplicaLogDirs", "CreateAcls",
    "CreateDelegationToken", "DeleteAcls", "ElectLeaders", "IncrementalAlterConfigs",
    "ReadShareGroupState", "ShareAcknowledge", "UpdateFeatures",
}  # fmt: skip
"""What changes nothing here, or nothing in further steps."""


class LeavingServer(WorstServer):
    """A server with little work between two checkpoints, each of which ends a step."""

    def __init__(self) -> None:
        super().__init__(Size(COUNT + 1, 4, COUNT, 10, 3, 3, 3, 3))
        self.ask(0, 9, produce("t0", dict.fromkeys(range(COUNT), BATCH)))
        self.finish()
        self.node.engine.unfinished.meter = Checkpoints()

    def requests_of(self, api: API) -> Iterator[bytes]:
        """Yield requests that fill each of the arrays."""
        version = newest(api)
        for path in arrays(api.request, version):
            shape = Shape(api, version, path, "different")
            for count in (COUNT, COUNT // 2, 3):
                request = shape.request(count, self.names(shape))
                try:
                    data = encode_request(api.key, version, 1, "c", request)[4:]
                    decode_request(data)
                except ProtocolError:
                    continue
                yield data
                break

    def change(self, data: bytes, *, leaves: bool) -> tuple[bool, int]:
        """Return whether a request changes something in further steps, and what the logs have after them."""
        for module in [module for name, module in sys.modules.items() if name.startswith("coordinator.")]:
            vars(module).update(dict.fromkeys(vars(module).keys() & set(BETWEEN), 5))
        request, engine = decode_request(data), self.node.engine
        self._handle(request.api_key, request.version, request.body)
        engine.flush()
        first = self._logs()
        if leaves:
            engine.forget(self._ticket)
        self.finish()
        after = self._logs()
        return first != after, after

    def _logs(self) -> int:
        return hash(tuple(sorted(read_logs(self.setup.files, "data").items())))


@pytest.fixture(scope="module")
def server() -> LeavingServer:
    return LeavingServer()


@pytest.mark.parametrize("name", APIS)
def test_a_request_that_changes_something_is_done_to_its_end(server: LeavingServer, name: str) -> None:
    is_long = False
    for data in server.requests_of(BY_NAME[name]):
        stays = in_a_copy(partial(server.change, data, leaves=False))
        if stays[0]:
            is_long = True
            assert in_a_copy(partial(server.change, data, leaves=True)) == stays, decode_request(data).body
    assert is_long is (name not in AT_ONCE)
