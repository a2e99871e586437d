"""Rows of a table: reading, filtering, converting."""
