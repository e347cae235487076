"""What groups with epochs share: the coordinator assigns, and members tell and hear everything in heartbeats."""
