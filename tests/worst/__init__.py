"""The largest requests of every API, and what each costs a server that holds much."""
