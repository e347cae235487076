"""One selector for all sockets that can itself be waited on: `epoll` on Linux, `kqueue` elsewhere.

Neither is used through `selectors`, whose keys cost more than the system call: what comes back here is
(file descriptor, mask) and nothing else. In a mask WRITE says that the socket takes more; any other bit, as that of an
error or a hang-up, says that there is something to read.
"""

import select
from typing import Final, Protocol

READ: Final = 1  # EPOLLIN
WRITE: Final = 4  # EPOLLOUT
EVENTS_MAX: Final = 1024  # of one poll


class Selector(Protocol):
    """The methods that `Epoll` and `Kqueue` have in common."""

    def fileno(self) -> int:
        """Readable when some registered descriptor is ready."""

    def watch(self, fd: int, interest: int, before: int) -> None:
        """Change what `fd` is watched for, from `before` to `interest`; 0 is nothing."""

    def poll(self, seconds: float = 0.0) -> list[tuple[int, int]]:
        """Return what is ready now, or else first becomes so within so many seconds, to the millisecond."""

    def close(self) -> None: ...


class Epoll:
    """Linux. Level-triggered: what was not read stays ready."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.fileno = self._epoll.fileno
        self.close = self._epoll.close

    def watch(self, fd: int, interest: int, before: int) -> None:
        if not interest:
            self._epoll.unregister(fd)
        elif before:
            self._epoll.modify(fd, interest)
        else:
            self._epoll.register(fd, interest)

    def poll(self, seconds: float = 0.0) -> list[tuple[int, int]]:
        return self._epoll.poll(seconds, EVENTS_MAX)


class Kqueue:
    """macOS and the BSDs."""

    def __init__(self) -> None:
        self._kqueue = select.kqueue()  # type: ignore[attr-defined,unused-ignore]  # not on Linux
        self.fileno = self._kqueue.fileno
        self.close = self._kqueue.close

    def watch(self, fd: int, interest: int, before: int) -> None:
        changes = []
        for bit, which in ((READ, "KQ_FILTER_READ"), (WRITE, "KQ_FILTER_WRITE")):
            if (interest ^ before) & bit:
                flag = "KQ_EV_ADD" if interest & bit else "KQ_EV_DELETE"
                changes.append(select.kevent(fd, getattr(select, which), getattr(select, flag)))  # type: ignore[attr-defined,unused-ignore]  # not on Linux
        if changes:
            self._kqueue.control(changes, 0, 0)

    def poll(self, seconds: float = 0.0) -> list[tuple[int, int]]:
        found: dict[int, int] = {}
        for event in self._kqueue.control(None, EVENTS_MAX, seconds):
            bit = WRITE if event.filter == select.KQ_FILTER_WRITE else READ  # type: ignore[attr-defined,unused-ignore]  # not on Linux
            found[event.ident] = found.get(event.ident, 0) | bit
        return list(found.items())


def selector() -> Selector:
    """Return the best selector that this system has."""
    return Epoll() if hasattr(select, "epoll") else Kqueue()
