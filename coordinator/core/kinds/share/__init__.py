"""Share groups (KIP-932): members that read the records of the same partitions, each record by one of them."""
