"""The kinds of groups: a folder each. What all groups have in common is outside of here, and names none of them."""
