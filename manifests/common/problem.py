"""Describes validation errors in words."""

from pydantic import ValidationError


def first_problem(error: ValueError) -> str:
    """The first problem of a validation error as `place: message`, without the invalid value, or
    the text of any other error.
    """
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    message = first["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
