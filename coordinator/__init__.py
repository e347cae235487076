"""Muster: Kafka's group coordinator as a server of its own."""

__version__ = "0.1.0"
