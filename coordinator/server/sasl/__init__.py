"""SASL mechanisms: machines that take a client's token and say what follows. They wait for nothing."""
