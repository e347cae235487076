"""A client of any Kafka for the commands, the pipeline and the tests: connections, clusters, raw batches.

It belongs to no group, and knows no server: below it is the protocol.
"""

from coordinator.client.connection import Client, ClientError, Security

__all__ = ["Client", "ClientError", "Security"]
