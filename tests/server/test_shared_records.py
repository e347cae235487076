"""Records that are sent as they lie in their files: with TLS and without, to slow clients, and where a fault meets them."""

import errno
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.server.tls import Tls
from protocol.messages.produce import ProduceResponse
from protocol.record_batch import encode
from protocol.records import Record
from storage import file_range
from storage.file_range import FileRange
from storage.real_files import RealFiles
from tests.control.steered import SteeredNode
from tests.requests import fetch, fetch_all, produce
from tests.server.certificates import client_context, server_tls
from tests.server.listening import Caller, Listening, listening, until

LARGE = 300_000
SECURE = pytest.mark.parametrize(("tls", "context"), [(None, None), (server_tls(), client_context())])
FETCH, PRODUCE = 12, 9


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    assert FileRange.open_ranges == 0
    yield
    assert FileRange.open_ranges == 0


async def fill(client: Caller, partitions: int = 1, batches: int = 3) -> None:
    for partition in range(partitions):
        for number in range(batches):
            data = encode([Record(b"key", bytes((number,)) * LARGE, timestamp=1_000)])
            answer = await client.ask(produce("orders", {partition: data}), PRODUCE)
            assert isinstance(answer, ProduceResponse)
            assert not answer.responses[0].partition_responses[0].error_code


def files() -> list[Path]:
    return list(Path().glob("data/orders-0/*.log"))


def stored(here: Listening, partition: int = 0) -> bytes:
    log = here.server.node.world.dataplane._state.log("orders", partition)
    assert log is not None
    return log.read(0, 10_000_000)


@SECURE
async def test_what_is_sent_is_what_is_stored(tls: Tls | None, context: ssl.SSLContext | None) -> None:
    async with listening(tls=tls, files=RealFiles(may_share=True), frame_bytes_max=1_000_000) as here:
        client = await here.connect(context)
        await fill(client, partitions=2)
        answer = await client.ask(fetch_all("orders", {0: 0, 1: 1}, max_bytes=10_000_000), FETCH)
        first, second = answer.responses[0].partitions
        assert first.records == stored(here)
        assert second.records == stored(here, 1)[len(stored(here, 1)) // 3 :]
        small = await client.ask(fetch("orders", 0, 2, max_bytes=1), FETCH)
        assert small.responses[0].partitions[0].records == stored(here)[-len(stored(here)) // 3 :]
        traffic = here.server.node.world.dataplane._state.traffic.topics["orders"]
        assert (traffic.records_out, traffic.bytes_out) == (6, 2 * len(stored(here)))


@SECURE
async def test_a_client_that_reads_late_loses_nothing(tls: Tls | None, context: ssl.SSLContext | None) -> None:
    """Responses behind the range wait for it; the topic's files may be gone before it is sent."""
    async with listening(tls=tls, files=RealFiles(may_share=True), frame_bytes_max=1_000_000) as here:
        client, link = await here.connect_narrowly(context)
        await fill(client)
        expected = stored(here)
        await client.send((fetch("orders", 0, 0, max_bytes=10_000_000), FETCH), (fetch("orders", 0, 3), FETCH))
        await until(lambda: link.is_behind)
        assert FileRange.open_ranges == 1
        for file in files():
            file.unlink()
        await client.read(len(client.answers) + 2)
        late, after = (answer.responses[0].partitions[0].records for _, answer in client.answers[-2:])
        assert (late, after) == (expected, b"")
        await until(lambda: not link.is_behind)
        assert link.held_bytes == 0


async def test_a_client_that_leaves_holds_no_file() -> None:
    async with listening(files=RealFiles(may_share=True), frame_bytes_max=1_000_000) as here:
        client, link = await here.connect_narrowly()
        await fill(client)
        await client.send((fetch("orders", 0, 0, max_bytes=10_000_000), FETCH))
        await until(lambda: link.is_behind)
        await client.stream.aclose()
        await until(lambda: not here.poller.connections)
        link.unsent.clear()


async def test_a_file_that_cannot_be_read_ends_the_connection() -> None:
    async with listening(files=RealFiles(may_share=True), frame_bytes_max=1_000_000) as here:
        client, link = await here.connect_narrowly()
        await fill(client)
        await client.send((fetch("orders", 0, 0, max_bytes=10_000_000), FETCH))
        await until(lambda: link.is_behind)
        for file in files():
            file.write_bytes(b"")
        assert await client.is_closed()


async def test_without_descriptors_records_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.real_files.RANGES_MAX", 0)
    assert file_range.RANGES_MAX
    async with listening(files=RealFiles(may_share=True), frame_bytes_max=1_000_000) as here:
        client = await here.connect()
        await fill(client)
        answer = await client.ask(fetch("orders", 0, 0, max_bytes=10_000_000), FETCH)
        assert answer.responses[0].partitions[0].records == stored(here)


def test_what_a_journal_notes_is_read() -> None:
    server = SteeredNode(journal_bytes=10_000_000, files=RealFiles(may_share=True), frame_bytes_max=1_000_000)
    client = server.connect()
    data = encode([Record(b"key", b"x" * LARGE, timestamp=1_000)])
    client.ask(produce("orders", {0: data}), PRODUCE)
    answer = client.ask(fetch("orders", 0, 0), FETCH)
    assert answer.responses[0].partitions[0].records == data


def test_records_that_cannot_be_read_for_the_journal_end_the_connection_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    server = SteeredNode(journal_bytes=10_000_000, files=RealFiles(may_share=True), frame_bytes_max=1_000_000)
    client, other = server.connect(), server.connect()
    client.ask(produce("orders", {0: encode([Record(b"key", b"x" * LARGE, timestamp=1_000)])}), PRODUCE)

    def fail(self: FileRange, start: int = 0, most: int | None = None) -> bytes:
        raise OSError(errno.EIO, "Input/output error", self.path)

    monkeypatch.setattr(FileRange, "read", fail)
    assert client.ask(fetch("orders", 0, 0), FETCH) is None
    assert client.connection.closing
    assert other.ask(fetch("orders", 1, 0), FETCH) is not None
