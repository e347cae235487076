"""How clients compress records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import cramjam
import lz4.frame

from protocol.compression import Compression

COMPRESS: dict[Compression, Callable[[bytes], Any]] = {
    Compression.NONE: bytes,
    Compression.GZIP: cramjam.gzip.compress,
    Compression.SNAPPY: cramjam.snappy.compress_raw,
    Compression.LZ4: partial(lz4.frame.compress, block_linked=False),  # Java reads no blocks that refer to others
    Compression.ZSTD: cramjam.zstd.compress,
}
