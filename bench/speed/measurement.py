"""What all measurements of speed have in common."""


class MeasurementError(Exception):
    """What was measured is not what was to be measured; the text says what was seen instead."""
