"""The assignors against Apache Kafka's own, on recorded questions and answers."""
