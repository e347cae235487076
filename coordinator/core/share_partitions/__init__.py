"""Share partitions (KIP-932): which records the members of a share group have, and what became of them."""
