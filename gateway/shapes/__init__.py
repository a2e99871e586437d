"""The shape of live answers: what changes in it, and who is told."""
