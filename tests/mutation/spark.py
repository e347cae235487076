"""One Spark session for all trials: forked processes speak with its Java process by connections of their own."""

import os
import threading
from pathlib import Path

from tests.pipeline.conftest import SharedSession


def share_session(scratch: Path) -> None:
    """Start the session that all tests of this process, and of those that it forks, are given."""
    session = SharedSession(scratch).get()
    client = session.sparkContext._gateway._gateway_client

    def reconnect() -> None:
        client.of_parent = client.thread_connection, [*client.deque]  # kept, so that nothing closes them
        client.thread_connection = threading.local()
        client.deque.clear()

    os.register_at_fork(after_in_child=reconnect)
    SharedSession.get = lambda _self: session
    SharedSession.kill = lambda _self: None
