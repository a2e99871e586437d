"""A scripted model behind an OpenAI-compatible endpoint, which plays the tasks of a seed.

    python oracle.py --seed 7 --tasks 100

It makes a task's labelled calls one after another, then states the right answer. It gives up if any
call failed, so that what a gateway failed shows in the reward.
"""

import argparse
import asyncio
import json
import os
import sys
from itertools import islice
from typing import Any

from aiohttp import web

from bench.rollouts import endless_tasks, text_of
from bench.suites.generated.answer import Answer
from bench.task import Task


def said(task: Task | None, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The next message of the model."""
    if task is None:
        return {"role": "assistant", "content": "I do not know this task."}
    rounds = sum(bool(message.get("tool_calls")) for message in messages)
    read = [text_of(one.get("content")) for one in messages if one["role"] == "tool"]
    if not all('"ok":true' in text[:200].replace(" ", "") for text in read):
        return {"role": "assistant", "content": "A tool failed, so I give up."}
    if rounds < len(task.tools):
        call = task.tools[rounds]
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        asked = {"id": f"call_{rounds}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [asked]}
    answer = Answer.model_validate_json(task.answer).text
    return {"role": "assistant", "content": f"Answer: {answer}"}


async def serve(seed: int, tasks: int) -> None:
    """Serve until the standard input ends."""
    known = {task.question: task for task in islice(endless_tasks(seed), tasks)}

    async def answer(request: web.Request) -> web.Response:
        asked = await request.json()
        messages = asked["messages"]
        questions = (text_of(one["content"]) for one in messages if one["role"] == "user")
        task = next((known[text] for text in questions if text in known), None)
        message = said(task, messages)
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        head = {"id": "oracle", "object": "chat.completion", "created": 0, "model": "oracle"}
        return web.json_response({**head, "choices": [choice], "usage": usage})

    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    print("oracle ready on http://127.0.0.1:{1}/v1".format(*runner.addresses[0]), flush=True)  # noqa: T201
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.read)
    os._exit(0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=100)
    asyncio.run(serve(**vars(parser.parse_args())))
