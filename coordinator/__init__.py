"""Muster: a standalone Kafka group coordinator."""

__version__ = "0.2.0"
