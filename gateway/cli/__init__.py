"""`finport` on the command line, one file a command."""
