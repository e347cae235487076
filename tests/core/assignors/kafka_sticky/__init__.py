"""Targets of Kafka Streams' tasks by Apache Kafka's own assignor."""
