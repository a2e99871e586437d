"""Formats of text arguments: each reads the usual spellings and writes the one upstream expects.

Reading a written value gives the same value. A spelling that would need a guess (an index code that
looks like a stock code, a day where a month is expected) is refused with `ValueError`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

Write = Callable[[str], str]

_MOMENT = re.compile(
    r"(?P<y>\d{4})(?:(?P<sep>[-/.])(?P<m>\d{1,2})(?P=sep)(?P<d>\d{1,2})|(?P<md>\d{4}))"
    r"(?:[T ](?P<time>\d{1,2}:\d{2}(?::\d{2})?)(?:\.\d+)?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?"
)
_MONTH = re.compile(r"(\d{4})[-/.]?(\d{2})|(\d{4})[-/.](\d)")
_STOCK = re.compile(
    r"(?:(?P<before>sh|sz|bj)[.:]?)?(?P<code>\d{6})(?:[.:](?P<after>sh|ss|sz|bj|xshg|xshe))?",
    re.IGNORECASE,
)
_HONG_KONG = re.compile(r"(?:hk[.:]?)?(\d{1,5})(?:[.:]hk)?", re.IGNORECASE)

EXCHANGES = {"ss": "sh", "xshg": "sh", "xshe": "sz"}
"""Other names of exchanges."""

# The exchange of a mainland stock by the first digits of its code; longer prefixes first.
_EXCHANGE_OF_STOCK = (
    (("920", "4", "8"), "bj"),
    (("6", "900"), "sh"),
    (("0", "2", "3"), "sz"),
)

_FROM = re.compile(
    r"(?:is_)?(?:start|begin|from|since)|.*(?:_from|start|_from_date)", re.IGNORECASE
)
_TO = re.compile(r"(?:end|to|until)|.*(?:_to|end|_to_date)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Format:
    """The words that describe a format, and what makes its writer for one parameter."""

    words: str
    writer: Callable[[str, str], Write]


def _date(pattern: str) -> Callable[[str, str], Write]:
    """A calendar day, written by `pattern`; a time of day in the text is dropped."""
    return _always(lambda text: _read(text)[0].strftime(pattern))


def _date_time(name: str, example: str) -> Write:
    """Date and time in the form of the example: `T` or a blank, with or without seconds."""
    seconds = ":%S" if example.count(":") == 2 else ""
    pattern = f"%Y-%m-%d{'T' if 'T' in example else ' '}%H:%M{seconds}"

    def write(text: str) -> str:
        moment, is_day = _read(text)
        if moment.tzinfo is not None:
            raise ValueError(f"{short(text)} names a time zone, but upstream uses its own")
        return (_edge(moment, name, text) if is_day else moment).strftime(pattern)

    return write


def _unix_seconds(name: str, _example: str) -> Write:
    """Seconds since 1970; a day, or a time without a zone, is read as UTC."""

    def write(text: str) -> str:
        if re.fullmatch(r"\d{9,10}", text):
            return text
        moment, is_day = _read(text)
        if is_day and (_FROM.search(name) or _TO.search(name)):
            moment = _edge(moment, name, text)
        return str(int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()))

    return write


def _always(write: Write) -> Callable[[str, str], Write]:
    """The same writer for all parameters."""
    return lambda _name, _example: write


def _month(text: str) -> str:
    found = _MONTH.fullmatch(text)
    year, month = (part for part in found.groups() if part) if found else ("", "0")
    if not 1 <= int(month) <= 12:
        raise ValueError(f"{short(text)} is no month")
    return f"{year}{int(month):02}"


def _stock(shape: str, *, by_code: bool = True) -> Callable[[str, str], Write]:
    def write(text: str) -> str:
        exchange, code = _exchange_and_code(text, by_code)
        return shape.format(code=code, exchange=exchange, EXCHANGE=exchange.upper())

    return _always(write)


def _hong_kong(text: str) -> str:
    found = _HONG_KONG.fullmatch(text)
    if found is None:
        raise ValueError(f"{short(text)} is no Hong Kong stock code")
    return found[1].zfill(5)


def _us(text: str) -> str:
    if not re.fullmatch(r"\d{3}\.[A-Za-z0-9._-]+", text):
        raise ValueError(f"{short(text)} is no US code of Eastmoney's")
    return text.upper()


def _fund(text: str) -> str:
    """A fund code does not include an exchange, so a prefix or suffix is dropped."""
    return _matched(r"\d{6}", re.sub(r"^(?:sh|sz|of)|\.(?:sh|sz|of)$", "", text, flags=re.I))


def _six_digits(text: str) -> str:
    """A code without its exchange, which the tool knows."""
    plain = re.sub(r"^(?:sh|sz|bj)[.:]?|\.(?:sh|ss|sz|bj|xshg|xshe)$", "", text, flags=re.I)
    return _matched(r"\d{6}", plain)


def _list(text: str) -> str:
    return ",".join(part.strip() for part in text.split(","))


def _letters(count: int) -> Callable[[str, str], Write]:
    """A code of `count` letters, in the case of the example."""

    def writer(_name: str, example: str) -> Write:
        cased = str.lower if example.islower() else str.upper
        return lambda text: cased(_matched(f"[A-Za-z]{{{count}}}", text))

    return writer


FORMATS = {
    "yyyymmdd": Format("date, such as 2024-01-31 or 20240131", _date("%Y%m%d")),
    "date": Format("date, such as 2024-01-31 or 20240131", _date("%Y-%m-%d")),
    "date-time": Format("date and time, such as 2024-01-31 09:30:00", _date_time),
    "unix-seconds": Format("Unix seconds, or a UTC date such as 2024-01-31", _unix_seconds),
    "yyyymm": Format("month, such as 2024-01 or 202401", _always(_month)),
    "yyyy": Format("year, such as 2024", _always(lambda text: _matched(r"\d{4}", text))),
    "a-share-code": Format("A-share code, such as 600000", _stock("{code}")),
    "a-share-prefixed": Format(
        "A-share code, such as sh600000 or 600000", _stock("{exchange}{code}")
    ),
    "a-share-upper": Format("A-share code, such as SH600000 or 600000", _stock("{EXCHANGE}{code}")),
    "a-share-suffixed": Format(
        "A-share code, such as 600000.SH or 600000", _stock("{code}.{EXCHANGE}")
    ),
    "exchange-prefixed": Format(
        "code with its exchange, such as sh510050", _stock("{exchange}{code}", by_code=False)
    ),
    "six-digit-code": Format("six-digit code, such as 000300", _always(_six_digits)),
    "hk-code": Format("Hong Kong stock code, such as 00700", _always(_hong_kong)),
    "us-code": Format("market number, dot and ticker, such as 105.MSFT", _always(_us)),
    "fund-code": Format("six-digit fund code, such as 510300", _always(_fund)),
    "csv": Format("one or more, separated by commas, or an array", _always(_list)),
    "currency-code": Format("currency code of ISO 4217, such as USD", _letters(3)),
    "country-code": Format("country code of two letters, such as US", _letters(2)),
}


DATE_FORMATS = frozenset({"yyyymmdd", "date", "date-time", "unix-seconds", "yyyymm", "yyyy"})


def short(value: object) -> str:
    """`value` as an error text shows it, at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _read(text: str) -> tuple[datetime, bool]:
    """The date and time in `text`, and whether it names a day only."""
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{short(text)} is no date")
    if int(found["y"]) < 1900:
        raise ValueError(f"{short(text)} is before 1900")
    month, day = (found["m"], found["d"]) if found["m"] else (found["md"][:2], found["md"][2:])
    clock = found["time"] or "00:00"
    clock = clock if clock[1] != ":" else f"0{clock}"
    zone = found["zone"] or ""
    try:
        moment = datetime.fromisoformat(f"{found['y']}-{month:0>2}-{day:0>2}T{clock}{zone}")
    except ValueError:
        raise ValueError(f"{short(text)} is no date") from None
    return moment, found["time"] is None


def _edge(day: datetime, name: str, text: str) -> datetime:
    """The first second of a day that begins a range, or the last of a day that ends one."""
    if _FROM.search(name):
        return day
    if _TO.search(name):
        return day.replace(hour=23, minute=59, second=59)
    raise ValueError(f"{short(text)} has no time of day")


def _exchange_and_code(text: str, by_code: bool) -> tuple[str, str]:
    """What `600000.SH`, `sh600000` or (with `by_code`, for stocks) `600000` means."""
    found = _STOCK.fullmatch(text.strip())
    if found is None or (found["before"] and found["after"]):
        raise ValueError(f"{short(text)} is no code of six digits")
    code = found["code"]
    named = (found["before"] or found["after"] or "").lower()
    named = EXCHANGES.get(named, named)
    if not by_code:
        if not named:
            raise ValueError(f"{short(text)} does not say which exchange")
        return named, code
    own = next((e for starts, e in _EXCHANGE_OF_STOCK if code.startswith(starts)), None)
    if own is None or (named and named != own):
        raise ValueError(f"{short(text)} is no mainland stock")
    return own, code


def _matched(pattern: str, text: str) -> str:
    if not re.fullmatch(pattern, text):
        raise ValueError(f"{short(text)} does not look like that")
    return text
