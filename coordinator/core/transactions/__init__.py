"""The transactional producers and the state of their transactions: decided without I/O."""
