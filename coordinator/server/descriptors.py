"""How many descriptors this process may have, and how many of them are for clients."""

import logging
import resource
from typing import Final

log = logging.getLogger("muster.server")

OPEN_MAX: Final = 10_240  # what macOS gives where it calls the hard limit infinite, and does not mean it
SLACK: Final = 96  # listeners, the lock, the catalog's and the events' files, Trio's own, files that are only read


def raise_limit() -> int:
    """Raise the soft limit to the hard one. Returns how many descriptors the process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, max(soft, OPEN_MAX)):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            continue
        return wanted
    return soft


def room_for_clients(limit: int, kept: int) -> int:
    """Return how many clients to take, so that no file of a log ever lacks a descriptor: for all but the `kept` ones.

    Where the limit is too small for that, it is a quarter: a server that takes nobody is no server.
    """
    if limit == resource.RLIM_INFINITY:
        return 2**31 - 1
    left, least = limit - kept - SLACK, limit // 4
    if left < least:
        log.warning("there are few descriptors (ulimit -n)", extra={"limit": limit, "logs": kept, "clients": least})
    return max(left, least)
