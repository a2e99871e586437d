"""Finding the tools for a question."""
