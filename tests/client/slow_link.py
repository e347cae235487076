"""A link between a client and a broker on loopback that carries so many bytes a second, each a while later.

with SlowLink("127.0.0.1:9092", bytes_per_s=200_000, latency_s=0.2) as link:
    link.address
"""

import queue
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

CHUNK = 4_096
HELD_MAX = 64  # chunks on the way


class SlowLink:
    """Listens on a port of its own, and passes on what comes, both ways. All connections share what the link carries."""

    def __init__(self, address: str, *, bytes_per_s: float, latency_s: float) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._bytes_per_s, self._latency_s = bytes_per_s, latency_s
        self._free_at_s = 0.0
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.carried = 0  # bytes towards the client

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for one in [self._listener, *self._sockets]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection((self._host, self._port))
                self._sockets += [client, broker]
                for source, sink in ((client, broker), (broker, client)):
                    chunks: queue.Queue[tuple[float, bytes]] = queue.Queue(HELD_MAX)
                    threading.Thread(target=self._read, args=(source, chunks), daemon=True).start()
                    threading.Thread(target=self._write, args=(source, sink, chunks), daemon=True).start()

    def _read(self, source: socket.socket, chunks: "queue.Queue[tuple[float, bytes]]") -> None:
        with suppress(OSError):
            while chunk := source.recv(CHUNK):
                chunks.put((time.monotonic() + self._latency_s, chunk))
        chunks.put((0.0, b""))

    def _write(self, source: socket.socket, sink: socket.socket, chunks: "queue.Queue[tuple[float, bytes]]") -> None:
        try:
            while (item := chunks.get())[1]:
                due_s, chunk = item
                with self._lock:
                    self._free_at_s = max(self._free_at_s, due_s) + len(chunk) / self._bytes_per_s
                    due_s = self._free_at_s
                time.sleep(max(0.0, due_s - time.monotonic()))
                sink.sendall(chunk)
                self.carried += len(chunk)
        except OSError:
            source.close()
            while chunks.get()[1]:  # so that its reader is not held up
                pass
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
