"""Which topics exist and what is set on them: decided and remembered without I/O."""
