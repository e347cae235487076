"""Causes of rebalances, staged on a real Apache Kafka with released clients: what `why` says of each, and what the broker wrote."""
