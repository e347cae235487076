"""State machines that read a group's records in log order and yield its rebalances, moves and sessions. No I/O."""
