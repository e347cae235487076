"""Environments with other releases of Spark."""

import shutil

PIP = shutil.which("pip")
