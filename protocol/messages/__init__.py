"""One file per API: its messages as frozen values, and the schemas that draw their bytes."""
