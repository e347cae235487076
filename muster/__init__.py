"""Muster: a standalone Kafka group coordinator. Everything that is installed is below this name.

A program imports `muster.pipeline.source` (`register(spark)`), and an assignor of its own what it needs of
`muster.coordinator.core.assignors`. In a checkout these packages lie beside this folder, under their short names.
"""

from contextlib import suppress

with suppress(ModuleNotFoundError):  # wheels do not have it
    import muster.checkout  # noqa: F401 - it puts the packages of a checkout below this name
