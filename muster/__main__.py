"""`python -m muster` is the command `muster`."""

import sys

from coordinator.cli import main

if __name__ == "__main__":
    sys.exit(main())
