"""Python functions of the user's as tools."""
