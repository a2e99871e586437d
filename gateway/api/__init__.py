"""The ways in over HTTP and standard input, each thin over `Gateway.call`."""
