"""What all speed measurements share."""


class MeasurementError(Exception):
    """The intended thing was not measured; the text says what was observed instead."""
