"""The error of an engine."""


class EngineError(Exception):
    """The engine can't start or go on; the text says why, and what helps."""
