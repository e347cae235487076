"""Streams groups (KIP-1071): the tasks of a Kafka Streams application, assigned by the coordinator."""
