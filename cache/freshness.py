"""How long an answer stays fresh, by the timeliness of its tool (RFC 9111, freshness lifetime)."""

HOUR, DAY = 3_600.0, 86_400.0

LIFETIME_S = {
    "realtime": 15.0,
    "daily": 1 * HOUR,
    "weekly": 6 * HOUR,
    "monthly": 1 * DAY,
    "as_filed": 6 * HOUR,
    "periodic": 3 * DAY,
    "static": 14 * DAY,
}


def lifetime_s(timeliness: str) -> float:
    """Seconds for which an answer of that timeliness may be given again."""
    return LIFETIME_S[timeliness]
