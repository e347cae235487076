"""What a server process needs before it serves: its listeners, its keys and users, and the directory of its logs."""

import contextlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coordinator.cli.listeners import AUTHENTICATED, ENCRYPTED, Endpoint
from coordinator.cli.options import Options
from coordinator.config import Config
from coordinator.server.listener import Listener, format_address, listen
from coordinator.setting import ConfigError
from storage import data_format, replacement
from storage.files import Files, Lock
from storage.real_files import RealFiles

if TYPE_CHECKING:  # what not every server needs is imported where it is made
    from coordinator.server.sasl.issuer import Issuer

LOCK_FILE: Final = "muster.lock"


class StartFailed(Exception):  # noqa: N818  # reads as the fact that it is
    """An address that cannot be listened on, a ready file that cannot be written, a package that is no longer whole."""


def bind(
    stack: contextlib.ExitStack,
    option: str,
    endpoint: Endpoint,
    config: Config | None = None,
    node_id: int = 0,
    issuer: "Issuer | None" = None,
) -> Listener:
    """Bind a listener, with its key, certificates and users.

    Raises StartFailed for the address, ConfigError for what is set wrong.
    """
    tls = sasl = None
    if config is not None and endpoint.protocol in ENCRYPTED:
        from coordinator.server.tls import Tls

        tls = Tls(config, endpoint.name, is_sasl=endpoint.protocol in AUTHENTICATED)
    if config is not None and endpoint.protocol in AUTHENTICATED:
        from coordinator.server.sasl.listener import Sasl

        sasl = Sasl(config, endpoint.name, issuer.keys if issuer else ())
    try:
        listener = listen(endpoint.bind, endpoint.advertised, name=endpoint.name, node_id=node_id, tls=tls, sasl=sasl)
    except OSError as error:
        raise StartFailed(f"cannot listen on {endpoint.bind} ({option}): {error.strerror or error}") from None
    stack.callback(listener.sock.close)
    return listener


def read_admin_token(file: str | None) -> str | None:
    """Return the token of the admin port, None if it wants none. Raises ConfigError."""
    if file is None:
        return None
    from coordinator.admin.access import read_token

    try:
        return read_token(file)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(f"invalid --admin-token-file {file!r}: {reason}") from None


def make_issuer() -> "Issuer":
    """Return the issuer of tokens for tests. Raises ConfigError without its package."""
    from coordinator.server.sasl.issuer import Issuer

    try:
        return Issuer()
    except ImportError:
        raise ConfigError(
            "--oauth-dev needs the package joserfc, of the extra `security`: pip install 'joserfc>=1.4,<2'"
        ) from None


def with_listeners(config: Config, listeners: Sequence[Listener]) -> Config:
    """Return the configuration that clients are shown: with the addresses in force, however they were given."""
    return config.override(
        {
            "listeners": tuple(f"{one.name}://{one.address}" for one in listeners),
            "advertised.listeners": tuple(f"{one.name}://{format_address(one.host, one.port)}" for one in listeners),
        }
    )


def open_storage(stack: contextlib.ExitStack, options: Options) -> tuple[Files, str]:
    """Return where the logs are kept, held against a second process."""
    if options.data_dir is None:
        from storage.memory_files import MemoryFiles

        return MemoryFiles(), "memory"
    check_data_dir(options.data_dir)
    files = RealFiles(may_share=True)
    files.make_directory(options.data_dir)
    lock: Lock = files.lock(f"{options.data_dir}/{LOCK_FILE}")
    stack.callback(lock.release)
    data_format.check(files, options.data_dir)
    replacement.finish(files, options.data_dir)
    return files, options.data_dir


def check_data_dir(name: str) -> None:
    """Refuse what is no directory, and what cannot become one. Raises ConfigError."""
    nearest = next(path for path in (Path(name), *Path(name).absolute().parents) if os.path.lexists(path))
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(f"invalid --data-dir {name!r}: expected a directory that can be written to, or made")


def check_input(*, exits_with_it: bool) -> None:
    """Refuse to end with a standard input that has no other end. Raises ConfigError."""
    if exits_with_it:
        mode = os.fstat(0).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(0)):
            raise ConfigError("invalid --exit-with-stdin: expected standard input to be a pipe")
