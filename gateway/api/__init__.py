"""The API over HTTP and standard input; each interface is a thin layer over `Gateway.call`."""
