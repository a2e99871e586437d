"""The world's key of the instrument that a request means, by a market and a code, or by any text.

A text is a code in a usual spelling or a name. A code that is not listed exists too; a name that no
instrument has does not.
"""

import re
from typing import Final

from adapters.simulator.world.instruments import LISTED
from manifests.symbols import Symbol, Symbols


class UnknownError(LookupError):
    """No instrument has this name."""


def key_of(market: str, code: str) -> str:
    """The key of a security by Eastmoney's number of its market, or by its code alone."""
    if market in {"105", "106", "107"}:
        return f"us:{code}"
    if market == "90":
        return f"bk:{code}"
    if market in {"100", "124", "251"}:
        return {"HSI": "hkHSI", "SPX": "us:SPX"}.get(code, f"ix:{code}")
    if market.isdecimal() and 101 <= int(market) <= 112:
        bare = re.sub("(00Y|[0-9]+[A-Z]?)$", "", code)
        return f"ff:{ {'ZS': 'S', 'ZC': 'C', 'ZW': 'W'}.get(bare, bare) }"
    if market in {"8", "113", "114", "115", "142", "225"}:
        return f"future:{re.sub('[msMS]$', '0', code).upper()}"
    if market in {"10", "12", "221"}:
        return f"option:{code.replace('-', '')}"
    if market == "116" or (not market and len(code) == 5):
        return f"hk{code}"
    if code.startswith("399"):
        return f"sz{code}"
    if market in {"2", "47"} or code.startswith(("93", "95", "98", "H")):
        return f"sh{code}" if code.startswith("000") else f"zz{code}"
    if code[:1] in {"4", "8"} and len(code) == 6:
        return f"bj{code}"
    in_shanghai = market == "1" if market and code[:1] != "9" else code[:1] in {"5", "6", "9"}
    return f"{'sh' if in_shanghai else 'sz'}{code}"


def key_of_symbol(text: str) -> str:
    """The key of a symbol such as `sh600519`, `SH600519`, `600519`, `00700`, `AAPL` or `.INX`, or
    of a name; any other code is one of New York. Raises `UnknownError`.
    """
    found = _INDICES.get(text) or key_of_code(text) or key_of_name(text)
    return found or f"us:{text.upper()}"


_INDICES: Final = {".INX": "us:SPX", ".IXIC": "ix:NDX", ".DJI": "ix:DJIA", "HSI": "hkHSI"}
"""Indices as Sina calls them."""


def key_of_index(symbol: str) -> str:
    """The key of an index abroad by Sina's symbol."""
    return _INDICES.get(symbol, f"ix:{symbol}")


def key_of_code(text: str) -> str | None:
    """The key of a code that is listed as it is, or says its exchange by a prefix, by a suffix or
    by its digits.
    """
    code = text.strip().upper().lstrip("^$")
    for key in (text, code.lower()):
        if key in LISTED:
            return key
    if found := re.fullmatch(r"(SH|SZ|BJ)[.:]?(\d{6})|(\d{6})\.(SS|SH|SZ|BJ)", code):
        market = (found[1] or found[4]).replace("SS", "SH").lower()
        return f"{market}{found[2] or found[3]}"
    if found := re.fullmatch(r"(?:HK[.:]?)?(\d{4,5})(?:\.HK)?|HK[.:]?(\d{3,5})", code):
        return f"hk{found[1] or found[2]:0>5}"
    if re.fullmatch(r"\d{6}", code):
        known = (market + code for market in ("sz", "sh") if market + code in LISTED)
        market = "sh" if code[0] in "569" else "bj" if code[0] in "48" else "sz"
        return next(known, market + code)
    return None


def key_of_name(text: str) -> str | None:
    """The key of the instrument of this name, a listed one before others; None for a text that may
    be a code. Raises `UnknownError` for any other text.
    """
    if re.fullmatch("[A-Z]{1,5}|[a-z]{1,5}", text):  # a ticker, also where it is a name's letters
        return None
    named = Symbols.load().exact(text)
    if any(one.code.upper() == text.upper() for one in named):
        return None
    keys = sorted(map(_key_of_known, named), key=lambda key: key not in LISTED)
    if not keys and re.fullmatch("[!-~]+", text) is None:
        raise UnknownError(f"no instrument of the simulated market is called {text[:60]!r}")
    return keys[0] if keys else None


def _key_of_known(one: Symbol) -> str:
    if one.exchange in {"sh", "sz", "bj", "of"} or (one.exchange == "hk" and one.kind != "index"):
        return f"{one.exchange}{one.code}"
    if one.kind == "index":
        return _INDICES_ABROAD.get(one.code, f"ix:{one.code}")
    kind = {"coin": "coin", "currency": "fx", "future": "future"}.get(one.kind, "us")
    return f"{kind}:{one.code}"


_INDICES_ABROAD: Final = {"HSI": "hkHSI", "SPX": "us:SPX", "DJI": "ix:DJIA", "DXY": "ix:UDI"}
"""Indices that the world calls otherwise than the table of names."""
