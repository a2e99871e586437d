"""Drift: how tools change over time. Releases of AkShare are read from their files, never run."""
