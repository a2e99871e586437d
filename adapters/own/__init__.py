"""Finport's own tools, which the gateway answers by itself."""
