"""Released Kafka clients against a live server process."""
