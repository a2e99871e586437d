"""Runs: the driver, the run directory and its reader, going on with a run, its live view."""
