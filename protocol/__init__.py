"""Kafka's wire format: bytes <-> frozen messages. Knows no sockets, no clocks, no groups."""
