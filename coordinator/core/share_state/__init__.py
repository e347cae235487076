"""The share coordinator (KIP-932): the state of share partitions, which `__share_group_state` remembers."""
