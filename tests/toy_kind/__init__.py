"""A kind of groups that nobody has: what it takes to add one is in this folder, and nowhere else."""
