"""What a client reads: the records of open and aborted transactions as well, or those of committed ones alone."""

from typing import Final

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
ISOLATION_LEVELS: Final = (READ_UNCOMMITTED, READ_COMMITTED)
