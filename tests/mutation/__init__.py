"""Mutation testing: plant small faults in the product, and count those that its tests find."""
