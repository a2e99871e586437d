"""The steps of a call."""
