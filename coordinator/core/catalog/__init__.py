"""The topics that exist and their settings: decided and remembered without I/O."""
