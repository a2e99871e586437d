"""The process in which long bodies are read: `python -m adapters.reader_worker`.

Frames come in on standard input: `{"outcome": [module, name], "status", "charset", "said"}` and the
body. Each is answered with one frame, which has `bytes`, the process's resident memory, and one of
`"columns", "rows"` with the data as body, `"refusal": {...}` and `"fault": {...}`.
The process ends when its standard input closes, so it never outlives its parent.
"""

import os
from dataclasses import asdict
from importlib import import_module
from typing import Any

from adapters.fault import UpstreamFault
from adapters.frames import bound_memory, frame, own_pipes, read_frame, resident_bytes
from adapters.http import Reply
from adapters.normalise import Answer

NICE = 10
MOST_BYTES = 3 * 2**29
"""Memory limit, enough for any body of `MAX_BYTES`: orjson reserves 1 GiB but uses only a part."""


def _outcome(job: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
    module, name = job["outcome"]
    compute = getattr(import_module(module), name)
    reply = Reply(job["status"], {}, job["charset"], body)
    try:
        outcome = compute(reply, *job["said"])
    except UpstreamFault as fault:
        return {"fault": fault.arguments}, b""
    except MemoryError:
        text = "reading the answer takes more memory than there is for it"
        return {"fault": UpstreamFault("too_large", text).arguments}, b""
    except Exception as error:  # noqa: BLE001 - a bad body fails its own call, not the process
        text = f"the answer can't be read: {type(error).__name__}"
        return {"fault": UpstreamFault("invalid", text).arguments}, b""
    if isinstance(outcome, Answer):
        return outcome.head, outcome.data
    return {"refusal": asdict(outcome)}, b""


def main() -> None:
    os.nice(NICE)
    frames, out = own_pipes()
    bound_memory(MOST_BYTES)
    while (job := read_frame(frames)) is not None:
        head, data = _outcome(*job)
        del job
        out.write(frame({"bytes": resident_bytes(), **head}, data))
        out.flush()


if __name__ == "__main__":
    main()
