"""The HTTP server: sockets, connections, processes, and how serving ends."""
