"""Exports of a run in other projects' formats, one module a format. `write(run, out, force=...)`
streams the records of a run directory to `out` and returns the number of episodes. `training` takes
several runs.

Only a few episodes are in memory at a time, whatever the size of the run. Credentials are already
redacted in the records, so none can reach an export.
"""
