"""A program that speaks MCP line by line and does what no server should: `FOLDER MANNER...`.

It writes its process id into the folder. `stubborn` goes on when its input ends or SIGTERM comes,
`garbage` writes lines that are no messages. The tool `long` answers with a line of 100 MB, and
`slow` after 7 s, in which the program does nothing else. `nan` answers with what is no JSON,
`told` with the values of its variables, `deep300` and so on with lists in lists; `id-last` has the
ids of these after their results.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

TOOLS = [
    {"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    for name in (
        "short",
        "long",
        "slow",
        "closes",
        "nan",
        "told",
        "deep300",
        "deep1000",
        "deep2000",
    )
]


def said(method: str) -> dict[str, Any] | None:
    if method == "initialize":
        version = {"name": "program", "version": "0"}
        return {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": version}
    return {"tools": TOOLS} if method == "tools/list" else None


def main() -> None:
    folder, manners = Path(sys.argv[1]), sys.argv[2:]
    (folder / "pid").write_text(str(os.getpid()))
    if "stubborn" in manners:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "garbage" in manners:
        sys.stdout.write("no message\n" * 1_000)
        sys.stderr.write("x" * 10**6 + "\n" + "y\n" * 10**4)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        result = said(request["method"])
        if request["method"] == "tools/call":
            name = request["params"]["name"]
            if name == "closes":
                sys.stdout.close()
                os.close(1)
                break
            if name == "slow":
                time.sleep(7)
            if name.startswith("deep"):
                levels, id_ = int(name[4:]), f'"id": {json.dumps(request["id"])}'
                deep = f'{{"content": [], "structuredContent": {"[" * levels + "]" * levels}}}'
                parts = [id_, f'"result": {deep}']
                parts = parts[::-1] if "id-last" in manners else parts
                sys.stdout.write(f'{{"jsonrpc": "2.0", {", ".join(parts)}}}\n')
                sys.stdout.flush()
                continue
            text = "x" * (10**8 if name == "long" else 5)
            result = {"content": [{"type": "text", "text": text}]}
            if name == "nan":
                result["structuredContent"] = {"price": float("nan")}
            elif name == "told":
                result["structuredContent"] = {**os.environ, "words": "more information"}
        if result is None:
            answer["error"] = {"code": -32601, "message": "no method"}
        else:
            answer["result"] = result
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    while "stubborn" in manners:
        time.sleep(1)


if __name__ == "__main__":
    main()
