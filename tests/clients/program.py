"""What the programs of this folder share.

Each drives one framework's own tool layer, as its users would, against a gateway and prints what it
saw as one JSON object: the names of the tools `listed`, what each call of `called` gave its caller,
the text of an `error`, and what came of a `wrong_key`. None of them imports Finport: they run in
environments of their own (see the `.in` files).
"""

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

DEADLINE_S = 60

ALL = "/mcp?tools=all"
FEW = "/mcp"

COIN = ("get_coin", {"uuid": "Qwsogvtv82FCd"})
HISTORY = ("stock_zh_a_hist", {"symbol": "000001", "start_date": "20240102"})
ORDER = ("call_tool", {"name": COIN[0], "arguments": COIN[1]})
WRONG = ("get_coin", {"uuid": "Qwsogvtv82FCd", "rows": 1})

WRONG_KEY = "fp_wrong"


def run(visit: Callable[[str, str], Awaitable[dict[str, Any]]]) -> None:
    """Visit the gateway whose URL and key the command line names."""
    url, key = sys.argv[1:]
    seen = asyncio.run(asyncio.wait_for(visit(url, key), DEADLINE_S))
    sys.stdout.write(json.dumps(seen))


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def raised_by(refused: Awaitable[object]) -> str:
    """All that Python would show of what it raises."""
    try:
        await refused
    except Exception as error:  # noqa: BLE001 - whatever a framework makes of it
        return "".join(traceback.format_exception(error))
    return ""
