"""Keys, certificates and users of listeners, while the server runs: read again with SIGHUP, and missed."""

import logging
import signal
from collections.abc import Sequence

import trio

from coordinator.server.listener import Listener
from coordinator.setting import ConfigError

log = logging.getLogger("muster")


async def reload_on_hangup(listeners: Sequence[Listener]) -> None:
    """Read keys, certificates and users again with each SIGHUP; what cannot be used changes nothing."""
    with trio.open_signal_receiver(signal.SIGHUP) as signals:
        async for _ in signals:
            for listener in listeners:
                await _reload(listener)


async def _reload(listener: Listener) -> None:
    facts = {"listener": listener.name}
    for what, part in (("key and certificates", listener.tls), ("users", listener.sasl)):
        if part is None:
            continue
        try:
            await trio.to_thread.run_sync(part.reload)
        except ConfigError as error:
            log.error("reload failed, the %s stay as they are: %s", what, error, extra=facts)
        else:
            log.info("%s reloaded", what, extra=facts)


def warn_of_listeners_without_users(listeners: Sequence[Listener]) -> None:
    """Log which listeners nobody can get into, since they have no users. Nobody could make a user there either."""
    for listener in listeners:
        if listener.sasl is not None and not listener.sasl.has_users:
            reason = "nobody can authenticate: there is no user, see sasl.users.file"
            log.warning(reason, extra={"listener": listener.name})
