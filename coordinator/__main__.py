"""`python -m coordinator` is `muster`, in a checkout."""

import sys

from coordinator.cli import main

if __name__ == "__main__":
    sys.exit(main())
