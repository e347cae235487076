"""Logs of record batches on disk, in Kafka's own layout. Synchronous; knows no groups."""
