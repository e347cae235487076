"""One Spark session for all trials: forked processes speak with its Java process by connections of their own."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

from tests.pipeline.conftest import SharedSession, is_alive


def share_session(scratch: Path) -> Callable[[bool], None]:
    """Start a session that the tests of forked processes are given. Return what puts a new one in its place.

    What a trial leaves in Java stays there until then: queries that go on, tables in the cache, and all objects of a
    process that has ended without a word.
    """
    shared = SharedSession(scratch)
    start, end = shared.get, shared.kill

    def reconnect() -> None:
        if shared._session is None:  # this is Java itself
            return
        client = shared._session.sparkContext._gateway._gateway_client
        client.of_parent = client.thread_connection, [*client.deque]  # kept, so that nothing closes them
        client.thread_connection = threading.local()
        client.deque.clear()

    def renew(only_if_dead: bool) -> None:
        if not (only_if_dead and is_alive(shared._session)):
            end()
            start()

    start()
    os.register_at_fork(after_in_child=reconnect)
    SharedSession.get = lambda _self: shared._session
    SharedSession.kill = lambda _self: None
    return renew
