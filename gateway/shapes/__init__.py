"""The shape of live answers, and what changes in it."""
