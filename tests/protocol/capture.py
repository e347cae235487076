"""Capture golden frames: a proxy between a released client and a Kafka, which keeps one frame of each kind it sees.

    python -m tests.protocol.capture --listen 9093 --upstream 9092 --out tests/protocol/golden --client aiokafka-0.14.0

The Kafka must advertise the proxy's port (`advertised.listeners=PLAINTEXT://127.0.0.1:9093`), or clients go past it after
their first Metadata. Let the client do its work, then end the proxy by Ctrl-C. It listens on loopback only.

A file is a frame without its four bytes of size, named `<api>_v<version>_<request|response>_<client>-<version>.bin`. Of
several frames of one kind the longest of at most 1 KiB is kept, for it has the most to say; a kind that had only longer
ones is left out. A file that is there is replaced only by a longer one.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from struct import Struct

import trio
from trio.abc import Stream

from protocol.apis import API_VERSIONS, APIS
from protocol.framing import FrameBuffer

FRAME_BYTES_KEPT = 1024
_REQUEST_HEAD = Struct(">hhi")
_CORRELATION_ID = Struct(">i")


class Tape:
    """What one connection says, filed by kind. A response is known by the request that has its correlation id."""

    def __init__(self, folder: Path, client: str) -> None:
        self.folder = folder
        self.client = client
        self._asked: dict[int, tuple[int, int]] = {}

    def request(self, frame: bytes) -> None:
        key, version, correlation_id = _REQUEST_HEAD.unpack_from(frame)
        self._asked[correlation_id] = (key, version)
        self._keep(key, version, "request", frame)

    def response(self, frame: bytes) -> None:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        if asked := self._asked.pop(correlation_id, None):
            key, version = asked
            unknown = key == API_VERSIONS and version not in APIS[key].versions
            self._keep(key, 0 if unknown else version, "response", frame)  # KIP-511: then the answer is in version 0

    def _keep(self, key: int, version: int, direction: str, frame: bytes) -> None:
        api = APIS.get(key)
        if api is None or len(frame) > FRAME_BYTES_KEPT:
            return
        path = self.folder / f"{api.module}_v{version}_{direction}_{self.client}.bin"
        if not path.exists() or path.stat().st_size < len(frame):
            path.write_bytes(frame)


Listener = Callable[[bytes], None]


async def relay(source: Stream, sink: Stream, hear: Listener, both: trio.CancelScope) -> None:
    """Hand on all bytes as they come, and let `hear` have every whole frame. When one way ends, both do."""
    buffer = FrameBuffer()
    with contextlib.suppress(trio.BrokenResourceError):  # clients that exit do not always say goodbye
        while chunk := await source.receive_some():
            await sink.send_all(chunk)
            buffer.feed(bytes(chunk))
            for frame in buffer:
                hear(frame)
    both.cancel()


async def serve(client: Stream, *, upstream: int, folder: Path, name: str) -> None:
    """One connection, until either side ends it."""
    tape = Tape(folder, name)
    async with await trio.open_tcp_stream("127.0.0.1", upstream) as server, trio.open_nursery() as nursery:
        nursery.start_soon(relay, client, server, tape.request, nursery.cancel_scope)
        nursery.start_soon(relay, server, client, tape.response, nursery.cancel_scope)


def main() -> None:
    parser = argparse.ArgumentParser(description="Capture golden frames between a client and a Kafka.")
    parser.add_argument("--listen", type=int, required=True, help="port of the proxy")
    parser.add_argument("--upstream", type=int, required=True, help="port of the Kafka")
    parser.add_argument("--out", type=Path, required=True, help="folder of the golden frames")
    parser.add_argument("--client", required=True, help="the client's name and version, as in aiokafka-0.14.0")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    handler = functools.partial(serve, upstream=options.upstream, folder=options.out, name=options.client)
    try:
        trio.run(functools.partial(trio.serve_tcp, handler, options.listen, host="127.0.0.1"))
    except* KeyboardInterrupt:
        print(f"frames are in {options.out}")


if __name__ == "__main__":
    main()
