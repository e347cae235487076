"""Which conditions, comparisons and loops of the product no test has seen come out in one of their ways."""
