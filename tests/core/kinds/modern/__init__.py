"""What groups with epochs share."""
