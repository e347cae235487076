"""What happened to a group, from its records in log order: pure state machines, without Spark and without I/O."""
