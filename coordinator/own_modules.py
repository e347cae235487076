"""Tell a module of Muster that is missing from one of others.

Modules that few servers need are imported when the first request needs them. If the package is installed anew
meanwhile, such a module may be gone, or no longer fit the rest: the server cannot go on, whatever it is asked.
"""

from typing import Final

CHANGED: Final = "the installed package has changed: start muster again"
_OWN: Final = (__package__ or "").rpartition(".")[0]  # what `hatch_build.py` puts all packages below


def is_missing(error: BaseException) -> bool:
    """Return whether an import has failed for a module of ours, or for something in it."""
    if not isinstance(error, ImportError) or error.name is None:
        return False
    top = error.name.partition(".")[0]
    return top == _OWN if _OWN else top in ("coordinator", "protocol", "storage")
