"""Targets by Apache Kafka's own assignors: of Kafka Streams' tasks, and of the partitions of share groups."""
