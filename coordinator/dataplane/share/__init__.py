"""Share groups' records (KIP-932): the share partitions that are served, and the steps of ShareFetch and
ShareAcknowledge."""
