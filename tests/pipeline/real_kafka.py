"""Logs that a real Kafka has written."""

from pathlib import Path

DATA = Path(__file__).parents[1] / "storage" / "data" / "kafka-4.3.1"

STATES = ["live", "compacted"]
