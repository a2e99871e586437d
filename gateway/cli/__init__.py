"""The command line of `finport`, one file per command."""
