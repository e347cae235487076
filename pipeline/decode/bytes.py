"""Sizes of a batch, and the type of columns."""

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
HEADER_BYTES = 61
LEAST_LENGTH = HEADER_BYTES - 12  # the length field counts what follows it
MOST_LENGTH = 256 << 20
PADDING = 16  # bytes behind the data of records, since texts are copied eight bytes at a time
