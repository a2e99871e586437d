"""Tells a command or a URL what a comparison found.

A command is run without a shell. It gets the notification on its standard input, no secret of ours
in its environment, and at most `DEADLINE_S`. Then it is killed with the processes that it has
started. A URL gets the notification by POST; no redirect is followed. Nothing that is shown holds
more of a URL than its host, because the path of a webhook is its secret.
"""

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Any, Final
from urllib.parse import urlsplit

import orjson

from adapters.process import environment
from bench.drift.finding import LEVELS, reaches
from manifests.common.origin import is_url
from manifests.common.terminal import plain

DEADLINE_S: Final = 30.0

MOST: Final = 200
"""Findings in one notification; `left_out` counts the others."""

_SAID: Final = 200
"""Bytes that are shown of a command's last words."""


NAMED = 5
"""The most tools that the text of a notification names."""


class NotifyError(Exception):
    """What is to be told can't be, or was not. The text says why."""


@dataclass(frozen=True)
class Notifier:
    """Where notifications go: `words` are a command, or the one word is a URL. `target` is what
    people see of it.
    """

    words: Sequence[str]
    target: str
    is_url: bool

    @classmethod
    def parse(cls, text: str) -> "Notifier":
        """Raises `NotifyError` if `text` is neither a URL of HTTP nor a command that is there."""
        if is_url(text):
            return cls([text], _host(text), True)
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise NotifyError(f"the command can't be read: {error}") from None
        if not words:
            raise NotifyError("it is empty; name a command or a URL")
        if "://" in words[0]:
            raise NotifyError("it is neither a URL of http or https nor a program")
        if shutil.which(words[0]) is None:
            raise NotifyError(f"{plain(words[0])} is no program that can be run")
        return cls(words, plain(words[0]), False)

    def send(self, notification: Mapping[str, Any]) -> None:
        """Blocks for `DEADLINE_S` at most. Raises `NotifyError`."""
        body = orjson.dumps(notification)
        try:
            failure = asyncio.run(_posted(self.words[0], body)) if self.is_url else self._ran(body)
        except OSError as error:
            failure = error.strerror or "no connection"
        if failure is not None:
            raise NotifyError(f"{self.target}: {failure}")

    def _ran(self, body: bytes) -> str | None:
        """Why the command failed. Raises `OSError`."""
        with TemporaryFile() as given:
            given.write(body)
            given.seek(0)
            process = subprocess.Popen(  # noqa: S603 - the user names the command
                self.words,
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment(),
                start_new_session=True,
            )
        said = bytearray()
        reader = Thread(target=_keep_end, args=(process.stderr, said), daemon=True)
        try:
            reader.start()
            code = process.wait(DEADLINE_S)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return f"it had not ended after {DEADLINE_S:g} s and was killed"
        reader.join(1.0)
        words = plain(" ".join(said.decode(errors="replace").split()))
        return f"exit code {code}{words and f': {words}'}" if code else None


def notification(
    content: Mapping[str, Any], limit: str, undelivered: Sequence[str]
) -> dict[str, Any] | None:
    """What is told of a comparison (`drift diff --json`): its findings that reach `limit`, the
    worst first; None if there are none. `undelivered` names earlier snapshots whose notification
    failed.
    """
    findings = [found for found in content["findings"] if reaches(found["level"], limit)]
    if not findings:
        return None
    before, after = content["before"], content["after"]
    counts = [count for count in content["counts"] if reaches(count["level"], limit)]
    said = ", ".join(f"{c['level']} {c['check']} {c['findings']:,}" for c in counts)
    findings.sort(key=lambda found: LEVELS.index(found["level"]))
    tools = [*dict.fromkeys(str(found["tool"]) for found in findings)]
    more = f" and {len(tools) - NAMED} more" if len(tools) > NAMED else ""
    return {
        "text": f"{before['file']} to {after['file']}: {said} ({', '.join(tools[:NAMED])}{more})",
        "before": before,
        "after": after,
        "counts": counts,
        "findings": findings[:MOST],
        "left_out": max(len(findings) - MOST, 0),
        "undelivered": [*undelivered],
    }


def _host(url: str) -> str:
    """Scheme and host of a URL. Raises `NotifyError`."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise NotifyError("the URL can't be read") from None
    if parts.scheme not in ("http", "https") or not host:
        raise NotifyError("the URL is not one of http:// or https:// with a host")
    if "@" in parts.netloc:
        raise NotifyError("the URL holds a user; let a command that reads the password send it")
    return plain(f"{parts.scheme}://{host}{f':{port}' if port else ''}")


async def _posted(url: str, body: bytes) -> str | None:
    """Why a POST failed. Raises `OSError`."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=DEADLINE_S)
    head = {"Content-Type": "application/json"}
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(url, data=body, headers=head, allow_redirects=False) as response,
        ):
            status = response.status
    except TimeoutError:
        return f"no answer within {DEADLINE_S:g} s"
    except (aiohttp.ClientError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return f"no answer ({reason or type(error).__name__})"
    if 300 <= status < 400:
        return f"status {status}, a redirect, which is not followed"
    return None if status < 300 else f"status {status}"


def _keep_end(stream: IO[bytes], said: bytearray) -> None:
    with stream:
        while chunk := os.read(stream.fileno(), 65_536):
            said += chunk
            del said[:-_SAID]
