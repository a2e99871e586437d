"""Tasks in Harbor's form (`task.toml` of schema 1.4), a folder a task.

A task has two containers: `main`, in which the agent and later the scorer run, and `finport` with
the gateway, which shares the network of `main` so that no key is needed. The gateway records its
answers and its trace in a volume that `main` can only read. `tests/test.sh` scores the episode from
these and from the agent's answer (`bench/exports/scoring.py`), by `finbench score-answer`. Harbor
takes a missing reward as an error of the trial, which is what an outage is.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from bench.exports.scoring import Scored
from bench.exports.target import begins, new_folder
from bench.own import is_own
from bench.runs.driver import Limits
from bench.runs.reader import ExportError
from bench.suites.generated.answer import Answer
from bench.suites.generated.suite import Generated
from bench.suites.suite import Suite
from bench.task import Task
from gateway.settings import PREFIX

HEAD = b"# A task of Finport, written by finbench export --format harbor.\n"

URL = "http://127.0.0.1:8000"
"""Where the gateway answers in the container of the agent."""

ANSWER = "/app/answer.txt"
RECORDS = "/finport"
"""The volume of the gateway's records."""

_SAFE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,79}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def write(
    suite: Suite,
    tasks: Iterable[Task],
    out: Path,
    settings: Mapping[str, Any],
    *,
    force: bool = False,
) -> int:
    """Write tasks of a suite as folders in the folder `out`, and return their number. `settings`
    are those of the gateway besides what the suite needs. Raises `ExportError` and `OSError`.
    """
    if is_own(suite.name):
        text = f"{suite.name} is a suite in a file of its own, which a container does not have"
        raise ExportError(f"{text}; Harbor gets the suites that come with the project")
    written = 0
    with new_folder(out, _is_exported, force=force, of_folders=True) as folder:
        for task in tasks:
            if suite.environment(task) is not None:
                text = f"{suite.name} plays in sessions, which an agent would open itself"
                raise ExportError(f"{text}; play it by OpenEnv, verifiers or Inspect")
            place = folder / name_of(task.id)
            for name, content in _files(suite, task, settings).items():
                file = place / name
                file.parent.mkdir(parents=True, exist_ok=True)
                try:
                    with file.open("xb") as opened:
                        opened.write(content)
                except FileExistsError:
                    raise ExportError(f"two tasks want the folder {place.name!r}") from None
                file.chmod(0o755 if file.suffix == ".sh" else 0o644)
            written += 1
    return written


def name_of(id_: str) -> str:
    """The name of a task's folder. Of an id that is no valid name, the legible part is used, with a
    hash.
    """
    if _SAFE.fullmatch(id_) and not id_.endswith("."):
        return id_
    legible = _UNSAFE.sub("-", id_)[:60].strip("-_") or "task"
    return f"{legible}-{blake2b(id_.encode(), digest_size=4).hexdigest()}"


def _is_exported(folder: Path) -> bool:
    file = folder / "task.toml"
    return begins(file, HEAD) if file.is_file() else not any(folder.iterdir())


def _files(suite: Suite, task: Task, settings: Mapping[str, Any]) -> dict[str, bytes]:
    own = {**settings, **suite.gateway_settings}
    scored = Scored(suite=suite.name, task=task)
    calls = [{"tool": call.name, "arguments": call.arguments} for call in task.tools]
    return {
        "task.toml": _task_toml(suite, task),
        "instruction.md": _instruction(suite, task).encode(),
        "environment/Dockerfile": _dockerfile(suite),
        "environment/docker-compose.yaml": _compose(own),
        "tests/test.sh": TEST.encode(),
        "tests/task.json": scored.model_dump_json().encode(),
        "solution/solve.sh": SOLVE.encode(),
        "solution/calls.json": orjson.dumps(calls),
        "solution/answer.txt": answer_of(suite, task).encode(),
    }


def answer_of(suite: Suite, task: Task) -> str:
    """What the oracle answers."""
    if isinstance(suite, Generated):
        return Answer.model_validate_json(task.answer).text
    return task.answer or "The calls were made."


def _task_toml(suite: Suite, task: Task) -> bytes:
    names = _tools(suite, task)
    url = f"{URL}/mcp?tools=names:{','.join(names)}" if names else f"{URL}/mcp"
    check = f"python3 -c \"from urllib.request import urlopen; urlopen('{URL}/readyz', timeout=5)\""
    tables: dict[str, dict[str, Any]] = {
        "": {"schema_version": "1.4"},
        "task": {
            "name": f"finport/{name_of(f'{suite.name}-{task.id}')}",
            "version": version("finport"),
            "description": f"{suite.title}: {task.category}",
            "keywords": ["finance", "tool-use", suite.name],
        },
        "metadata": {
            "suite": suite.name,
            "task": task.id,
            "category": task.category,
            "difficulty": task.difficulty,
            "source_dataset": task.source_dataset,
            "tools": names,
        },
        "verifier": {"timeout_sec": 600.0},
        "agent": {"timeout_sec": float(suite.limits.get("wall_s", Limits().wall_s))},
        "environment": {
            "build_timeout_sec": 1800.0,
            "cpus": 2,
            "memory_mb": 4096,
            "workdir": "/app",
        },
        "environment.healthcheck": {
            "command": check,
            "interval_sec": 2.0,
            "timeout_sec": 10.0,
            "start_period_sec": 120.0,
            "start_interval_sec": 1.0,
            "retries": 10,
        },
    }
    parts = [_table(name, values) for name, values in tables.items()]
    server = {"name": "finport", "transport": "streamable-http", "url": url}
    parts.append(f"[[environment.mcp_servers]]\n{_lines(server)}")
    return HEAD + "\n".join(parts).encode()


def _table(name: str, values: Mapping[str, Any]) -> str:
    return f"[{name}]\n{_lines(values)}" if name else _lines(values)


def _lines(values: Mapping[str, Any]) -> str:
    """Lines of TOML; JSON's texts, numbers and lists of these are TOML's."""
    texts = {name: orjson.dumps(value).decode() for name, value in values.items()}
    return "".join(f"{name} = {text}\n" for name, text in texts.items()).replace("\x7f", "\\u007f")


def _tools(suite: Suite, task: Task) -> list[str]:
    """The tools that an agent is offered."""
    return list(dict.fromkeys(suite.offered(task) or (call.name for call in task.tools)))


def _instruction(suite: Suite, task: Task) -> str:
    tools = _tools(suite, task)
    text = f"{task.question.strip()}\n\n"
    if tools:
        listed = "\n".join(f"- `{name}`" for name in tools)
        text += (
            f"The MCP server `finport` has the tools for it:\n\n{listed}\n\n"
            f"A shell has them too: `{URL}/v1/tools/NAME` describes a tool, and takes its "
            "arguments as the JSON body of a POST.\n\n"
        )
    return f"{text}Write the answer, and nothing else, to `{ANSWER}`.\n"


def _dockerfile(suite: Suite) -> bytes:
    extras = "akshare,finova" if suite.name.startswith("finova") else "akshare"
    return f"""\
FROM python:3.11-slim
# What is installed as Finport; a wheel's or a repository's address where no index has it.
ARG FINPORT="finport[{extras}]=={version("finport")}"
RUN pip install --no-cache-dir "$FINPORT"
WORKDIR /app
""".encode()


def _compose(settings: Mapping[str, Any]) -> bytes:
    named = {f"{PREFIX}{name.upper()}": str(value) for name, value in settings.items()}
    named["FINPORT_CACHE_DIR"] = "/var/cache/finport"
    if settings.get("upstream") != "simulated":
        named["FINPORT_RAPIDAPI_KEYS"] = "${FINPORT_RAPIDAPI_KEYS:-}"
    variables = "".join(
        f"      {name}: {orjson.dumps(value).decode()}\n" for name, value in sorted(named.items())
    )
    return f"""\
services:
  main:
    volumes: ["records:{RECORDS}:ro"]

  finport:
    build:
      context: ${{CONTEXT_DIR}}
    network_mode: "service:main"
    command:
      - finport
      - serve
      - --mode=record
      - --snapshot={RECORDS}/answers.snapshot
      - --trace={RECORDS}/calls.jsonl
    environment:
{variables}    volumes: ["records:{RECORDS}"]

volumes:
  records:
""".encode()


TEST = f"""\
#!/bin/sh
# Scores the episode. An outage leaves no reward and exit code 1: Harbor then has no result.
set -eu
records="${{RECORDS_DIR:-{RECORDS}}}"
exec finbench score-answer "$(dirname "$0")/task.json" --answer "${{ANSWER_FILE:-{ANSWER}}}" \\
  --trace "$records/calls.jsonl" --snapshot "$records/answers.snapshot" \\
  --out "${{VERIFIER_DIR:-/logs/verifier}}"
"""

SOLVE = f"""\
#!/bin/sh
# The oracle: makes the labelled calls and writes the right answer.
set -eu
here="$(dirname "$0")"
python3 - "$here/calls.json" "${{GATEWAY_URL:-{URL}}}" <<'PYTHON'
import json, sys
from urllib.request import urlopen
for call in json.load(open(sys.argv[1])):
    body = json.dumps(call["arguments"]).encode()
    with urlopen(f"{{sys.argv[2]}}/v1/tools/{{call['tool']}}", body, timeout=300) as answer:
        answer.read()
PYTHON
cp "$here/answer.txt" "${{ANSWER_FILE:-{ANSWER}}}"
"""
