"""Simulated snapshots in which drift was planted, to measure what the comparison finds."""
