"""Answers within a budget of tokens or characters, and filters of rows."""
