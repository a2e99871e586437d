"""Reads numbers with their units from texts, and says when two of them are the same.

It reads thousands separators, scientific notation, fractions and signs; percent, 百分点 and basis
points; thousand to trillion, K, M, B, T, bn and mn; 十百千万亿兆 and their products; and currency
marks, which carry no value. Dates, fiscal years and quarters are no numbers. It does not read
numerals in words.
"""

import re
import unicodedata
from dataclasses import dataclass
from math import prod

RELATIVE = 0.01
"""How far a stated number may be from the gold one, as a share of the gold one."""

_CHINESE = {"十": 1e1, "百": 1e2, "千": 1e3, "万": 1e4, "亿": 1e8, "兆": 1e12}
_ENGLISH = {
    **dict.fromkeys(("thousand", "k"), 1e3),
    **dict.fromkeys(("million", "m", "mn", "mln"), 1e6),
    **dict.fromkeys(("billion", "b", "bn"), 1e9),
    **dict.fromkeys(("trillion", "t", "tn"), 1e12),
}
_MONTHS = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"

_DATES = re.compile(
    rf"""(?<!\d)(?:
      \d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}} | \d{{1,2}}/\d{{1,2}}/\d{{2,4}}
    | \d{{4}}年(?:\d{{1,2}}月)?(?:\d{{1,2}}[日号])? | \d{{1,2}}月\d{{1,2}}[日号]
    )(?!\d)
    | \b{_MONTHS}\.?\s\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s\d{{4}})?\b
    | \b\d{{1,2}}\s{_MONTHS}\.?(?:\s\d{{4}})?\b
    | \bfy\s?'?\d{{2,4}} | \b10-[kq]\b""",
    re.IGNORECASE | re.VERBOSE,
)
_NUMBER = re.compile(
    r"""(?<![A-Za-z0-9_./])
    (?:(?P<open>\()\s*)?
    (?P<minus>(?<![%)十百千万亿兆])-)?
    (?P<hundredths>百分之)?
    (?:(?:(?:US|HK|CN|NT|A|C)?[$¥€£]|USD|RMB|CNY|HKD|EUR)\s?(?P<inner>-)?)?
    (?P<digits>(?>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+))
    (?!st\b|nd\b|rd\b|th\b)
    (?:\s?/\s?(?P<divisor>\d+(?:\.\d+)?)(?![\d./]))?
    (?:\s?[x×]\s?10\^(?P<power>[+-]?\d{1,3})|e(?P<exponent>[+-]?\d{1,3})(?![\da-z]))?
    \s*
    (?:(?P<percent>%|percent|pct\b|个?百分点)|(?P<basis>bps?\b|basis\spoints?|个?基点)
      |(?P<chinese>[十百千万亿兆]+)|(?P<english>thousand|million|billion|trillion|mn|mln|bn|tn)s?\b
      |(?<=\d)(?P<letter>(?-i:[KkMmBbT]))(?![a-z']))?
    (?P<close>[^\d()]{0,4}\))?""",
    re.VERBOSE | re.IGNORECASE,
)
_ASKED_SCALE = re.compile(
    r"\b(?:in|of)\s(?:units\sof\s)?(?:usd|us\sdollars?|us\$|\$|dollars?)?\s?"
    r"(?P<english>thousand|million|billion)s?\b|(?:单位[是为:]?|以(?=[^,。]{1,4}(?:元|计|为单位))|多少)\s?(?!百分)(?P<chinese>[百千万亿]+)",
    re.IGNORECASE,
)
_SUPERSCRIPTS = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+")
_POWER_IN_BRACES = re.compile(r"\^\{(-?\d+)\}")
_LATEX = str.maketrans({"\\": " ", "{": " ", "}": " ", "*": "×"})


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as it is written: `written` times `unit`, which is None where none is named.

    `last_digit` is the value of one unit of its last digit; 0 for a fraction. `bracketed`: it is
    alone in brackets, as negative numbers are in accounts. `is_year`: it may be a year.
    """

    written: float
    unit: float | None
    last_digit: float
    bracketed: bool = False
    is_year: bool = False

    @property
    def value(self) -> float:
        return self.written * (self.unit or 1.0)


def quantities(text: str) -> list[Quantity]:
    """The numbers of a text in their order. 1亿2000万 is one number."""
    found: list[Quantity] = []
    before: re.Match[str] | None = None
    for match in _NUMBER.finditer(_plain(text)):
        quantity = _read(match)
        if before is not None and _goes_on(before, match):
            whole = found.pop()
            share = _product(match["chinese"]) / _product(before["chinese"])
            written = whole.written + quantity.written * share
            quantity = Quantity(written, whole.unit, quantity.last_digit * share)
        found.append(quantity)
        before = match
    return found


def same(gold: Quantity, given: Quantity, scale: float | None = None) -> bool:
    """Whether `given` is the number `gold`.

    The definition is ours: they may differ by 1 % of the gold or by half of the gold's last digit,
    whichever is more. Units are converted. A number without a unit may be meant in the unit of the
    other, or in `scale`, the unit that the question asks for. If `given` names millions or the
    like, a gold number without a unit is read in `scale` only: 5 billion are not "5, in millions".
    """
    reach = max(RELATIVE * abs(gold.written), gold.last_digit / 2) * (1 + 1e-9)
    forms = [given.value / (gold.unit or 1.0)]
    is_scaled = scale is not None and given.unit is not None and given.unit > 1
    if given.unit is None or (gold.unit is None and not is_scaled):
        forms.append(given.written)
    if gold.unit is None and scale is not None:
        forms.append(given.value / scale)
    signs = (1, -1) if given.bracketed or gold.bracketed else (1,)
    return any(abs(sign * form - gold.written) <= reach for form in forms for sign in signs)


def asked_scale(question: str) -> float | None:
    """The unit in which a question asks for its answer ("in USD millions", 单位：万元)."""
    match = _ASKED_SCALE.search(unicodedata.normalize("NFKC", question))
    if match is None:
        return None
    word = match["english"]
    return _ENGLISH[word.lower()] if word else _product(match["chinese"])


def _plain(text: str) -> str:
    """The text with full-width signs, LaTeX and dates removed or made plain."""
    text = _SUPERSCRIPTS.sub(lambda m: f"^{unicodedata.normalize('NFKC', m[0])}", text)
    text = unicodedata.normalize("NFKC", text).replace("−", "-").replace("–", "-")
    text = _POWER_IN_BRACES.sub(r"^\1", text.replace("**", " ").replace("{,}", ","))
    text = text.replace("\\text", "").replace("\\times", "×").translate(_LATEX)
    return _DATES.sub(" ; ", text)


def _goes_on(before: re.Match[str], match: re.Match[str]) -> bool:
    larger, smaller = before["chinese"], match["chinese"]
    touching = before.end() == match.start() and not match["minus"]
    return bool(touching and larger and smaller and _product(smaller) < _product(larger))


def _read(match: re.Match[str]) -> Quantity:
    digits = match["digits"].replace(",", "")
    whole, _, decimals = digits.partition(".")
    written, last_digit = float(digits), 10.0 ** -len(decimals)
    if match["divisor"] and float(match["divisor"]):
        written, last_digit = written / float(match["divisor"]), 0.0
    shift = float(f"1e{match['power'] or match['exponent'] or 0}")
    unit = _unit(match)
    plain = unit is None and shift == 1.0 and not decimals and digits == match["digits"]
    sign = -1 if match["minus"] or match["inner"] else 1
    return Quantity(
        written=sign * written * shift,
        unit=unit,
        last_digit=last_digit * shift,
        bracketed=bool(match["open"] and match["close"]),
        is_year=plain and len(whole) == 4 and 1900 <= written <= 2100,
    )


def _unit(match: re.Match[str]) -> float | None:
    if match["percent"] or match["hundredths"]:
        return 0.01
    if match["basis"]:
        return 0.0001
    if match["chinese"]:
        return _product(match["chinese"])
    word = match["english"] or match["letter"]
    return _ENGLISH[word.lower()] if word else None


def _product(units: str) -> float:
    return prod(_CHINESE[unit] for unit in units)
