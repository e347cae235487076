"""Which transactional producers there are and how far their transactions have come: decided without I/O."""
