"""Options by which a log compresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cramjam

from protocol.compression import Compression

COMPRESS: dict[Compression, Callable[[bytes], Any]] = {
    Compression.NONE: bytes,
    Compression.GZIP: cramjam.gzip.compress,
    Compression.SNAPPY: cramjam.snappy.compress_raw,
    Compression.LZ4: cramjam.lz4.compress,
    Compression.ZSTD: cramjam.zstd.compress,
}
