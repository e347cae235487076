"""The edge to operators: health, metrics and the latest events over HTTP."""

from typing import Final

CONNECTIONS_MAX: Final = 128  # at once; one more ends the one that was silent for longest
