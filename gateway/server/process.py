"""Adjusts limits of the system for a server of thousands of connections."""

import resource


def raise_file_limit() -> None:
    """Raise the soft limit on open files to the hard limit, because each connection is a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
