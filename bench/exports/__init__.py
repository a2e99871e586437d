"""A run in the formats of others, one module a format: `write(run, out, force=...)` streams the
records of a run directory to `out` and says how many episodes they were.

Whatever the size of the run, a few episodes are in memory at a time. Credentials are redacted in
the records already, so none can reach an export.
"""

from bench.runs.reader import ExportError, Run

__all__ = ["ExportError", "Run"]
