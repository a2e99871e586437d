"""Runs: the driver, the run directory and its reader, resuming a run, its live view."""
