"""Just enough of a broker for clients to produce and to poll, over plain storage logs."""
