"""CRC-32C, the checksum of batches.

It comes from the package crc32c, of which only the compiled module is imported. The package itself asks for its own
version when it is imported, and so imports what reads the metadata of packages: `email`, `zipfile` and thirty modules
more, which are 1.7 MiB and a twentieth of a server's start.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Final

Checksum = Callable[..., int]
"""Given bytes, and of what stands before them the checksum: that of both."""


def _import_extension() -> Checksum | None:
    """Return the function of the compiled module, None if the package is built in another way."""
    package = find_spec("crc32c")
    folders = package.submodule_search_locations if package else None
    spec = PathFinder.find_spec("crc32c._crc32c", folders)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Checksum | None = getattr(module, "crc32c", None)
    return found


def _find() -> Checksum:
    compiled = _import_extension()
    if compiled is not None:
        return compiled
    from crc32c import crc32c

    return crc32c


crc32c: Final[Checksum] = _find()
