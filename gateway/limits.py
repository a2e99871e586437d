"""Limits of the operating system that a server of thousands of connections meets."""

import resource


def raise_file_limit() -> None:
    """Raise the soft limit on open files to the hard one: a connection is a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
