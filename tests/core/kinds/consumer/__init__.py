"""Consumer groups (KIP-848): scripts' words for them, properties, migration, patterns."""
