"""The edge to clients: sockets, connections, and who answers which request."""
