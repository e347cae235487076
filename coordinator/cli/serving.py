"""The life of a server process: bind, lock, load, serve, stop. What `muster serve` runs once its options are understood."""

import gc
import json
import logging
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from coordinator import __version__
from coordinator.cli import fail
from coordinator.cli.logs import set_up
from coordinator.cli.serve import Options
from coordinator.config import ConfigError
from coordinator.metrics import Stats
from coordinator.runtime.clock import Clock
from coordinator.runtime.dice import fresh_ids
from coordinator.runtime.node import Node
from coordinator.server.frontend import Frontend
from coordinator.server.listener import Listener, listen, shown
from coordinator.server.poller import Poller
from storage.errors import StorageDamaged, StorageFailed, StorageLocked

if TYPE_CHECKING:
    from coordinator.admin.http import Handler

log = logging.getLogger("muster")


def serve(options: Options) -> int:
    """Serve until a signal says stop. Returns the exit code."""
    set_up(options.log_level, options.log_format)
    listeners: list[Listener] = []
    try:
        listeners += [_bound("--listen", text, options.advertise) for text in options.listen]
        admin = _bound("--admin", options.admin) if options.admin else None
        trio.run(_run, options, listeners, admin)
    except (ConfigError, ValueError) as error:
        return fail("serve", error, 2)
    except* (StorageFailed, StorageDamaged, StorageLocked, OSError) as errors:
        return fail("serve", _first(errors))
    finally:
        for listener in listeners:
            listener.sock.close()
    return 0
