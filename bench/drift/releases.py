"""Releases of AkShare: which there are, and their wheels in a cache folder.

pip fetches the wheels, one at a time, from the index that it is configured to use, and checks the
hashes. A wheel takes its name in the cache when it is whole, so what was interrupted can go on, and
a wheel that is there is not fetched again. When each release was uploaded comes from the index's
own list (PEP 691 and 700), if it has one; the cache keeps these times as well.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from ssl import SSLError
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any
from urllib.error import HTTPError, URLError

import orjson

from bench.drift.functions import PACKAGE
from bench.progress import Progress
from manifests.common.files import replaced_file

_VERSION = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6}){1,3}")
_WHEEL = re.compile(rf"{PACKAGE}-(?P<version>[0-9.]+)-py3-none-any\.whl")
_LIST = "releases.json"
_LIST_TYPE = "application/vnd.pypi.simple.v1+json"
_MAX_LIST_BYTES = 32 * 2**20
_LIST_S, _PIP_S = 60.0, 600.0

Tell = Callable[[str], None]


class ReleaseError(Exception):
    """A release that can't be had; the text says why."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release whose wheel is in the cache, and when it was uploaded, if that is known."""

    version: str
    wheel: Path
    uploaded: datetime | None


def order(version: str) -> tuple[int, ...]:
    """The place of a version among others. Raises `ReleaseError` if it is no final release."""
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"{version!r} is no release; write one as 1.19.5")
    return tuple(map(int, version.split(".")))


def evenly(versions: Sequence[str], count: int) -> list[str]:
    """At most `count` of the versions, evenly spaced, with the first and the last."""
    if len(versions) <= count:
        return list(versions)
    step = (len(versions) - 1) / (count - 1)
    return [versions[round(step * place)] for place in range(count)]


def each(tell: Tell, what: str, versions: Sequence[str]) -> Iterator[str]:
    """The versions, one after another. Tells which is next, and about how long the rest takes."""
    progress, count = Progress(tell, every_s=0.0), len(versions)
    for place, version in enumerate(versions):
        progress.at(place / count, f"{what} {PACKAGE} {version}: {place + 1} of {count}")
        yield version


class Releases:
    """The releases in a cache folder, and those of the index. `tell` hears of each fetch."""

    def __init__(self, folder: Path, tell: Tell) -> None:
        self.folder = folder
        self.fetched_bytes = 0
        self._tell = tell
        self._uploaded = self._kept()

    def versions(self) -> list[str]:
        """All final releases that the index has, the oldest first. Raises `ReleaseError`."""
        versions = list(self._uploaded) if self._read_list() else _versions_of_pip()
        return sorted((v for v in versions if _VERSION.fullmatch(v)), key=order)

    def get(self, versions: Iterable[str]) -> list[Release]:
        """Releases by version, fetched if the cache does not have them. Raises `ReleaseError`, and
        `OSError` if the cache can't be written.
        """
        wanted = list(versions)
        if any(self._uploaded.get(version) is None for version in wanted):
            self._read_list()  # without it releases are counted, not dated
        missing = [version for version in wanted if not self._wheel(version).is_file()]
        for version in each(self._tell, "fetching", missing):
            self._fetch(version)
        return [Release(v, self._wheel(v), self._uploaded.get(v)) for v in wanted]

    def _wheel(self, version: str) -> Path:
        return self.folder / f"{PACKAGE}-{version}-py3-none-any.whl"

    def _fetch(self, version: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            with _uninterrupted():
                folder = TemporaryDirectory(prefix=".fetching-", dir=self.folder)
                aside = stack.enter_context(folder)
            _from_index(
                *("download", "--quiet", "--progress-bar", "off", "--no-deps", "--dest", aside),
                *("--only-binary", ":all:", "--ignore-requires-python", f"{PACKAGE}=={version}"),
            )
            got = [file for file in Path(aside).iterdir() if _WHEEL.fullmatch(file.name)]
            if len(got) != 1 or got[0].name != self._wheel(version).name:
                raise ReleaseError(
                    f"pip fetched no wheel of {PACKAGE} {version} that runs anywhere"
                )
            self.fetched_bytes += got[0].stat().st_size
            os.replace(got[0], self._wheel(version))

    def _kept(self) -> dict[str, datetime | None]:
        try:
            return _listing(orjson.loads((self.folder / _LIST).read_bytes()))
        except (OSError, ValueError):
            return {}

    def _read_list(self) -> bool:
        """Read the index's list and keep it; whether there is one with releases, in a form that has
        upload times.
        """
        if (index := _index()) is None:
            return False
        try:
            with _asked(index) as response:
                if response.headers.get_content_type() != _LIST_TYPE:
                    return False
                uploaded = _listing(orjson.loads(response.read(_MAX_LIST_BYTES)))
        except (OSError, ValueError, HTTPException):
            return False
        if not uploaded:
            return False
        self._uploaded = uploaded
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = [
            {"filename": self._wheel(version).name, "upload-time": moment}
            for version, moment in uploaded.items()
        ]
        with replaced_file(self.folder / _LIST) as out:
            out.write(orjson.dumps({"files": kept}))
        return True


def _listing(found: Any) -> dict[str, datetime | None]:
    """When the wheels of an index's list were uploaded, by version. What is not as PEP 691 and 700
    say is left out.
    """
    files = found.get("files") if isinstance(found, dict) else None
    uploaded = {}
    for file in files if isinstance(files, list) else ():
        name = file.get("filename") if isinstance(file, dict) else None
        match = _WHEEL.fullmatch(name) if isinstance(name, str) else None
        if match and not file.get("yanked") and _VERSION.fullmatch(match["version"]):
            uploaded[match["version"]] = _time(file.get("upload-time"))
    return uploaded


def _time(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _index() -> str | None:
    """The URL of pip's index, which its help shows as its options, variables and files say it, but
    without a password.
    """
    try:
        text = _pip("download", "--help")
    except ReleaseError:
        return None
    shown = re.search(r"--index-url <url>.*?\(default:?\s+(https?://[^\s)]+)\)", text, re.DOTALL)
    return shown[1].rstrip("/") if shown else None


def _asked(index: str) -> Any:
    headers = {"Accept": _LIST_TYPE, "User-Agent": "finport"}
    url = f"{index}/{PACKAGE}/"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http or https, as matched
    return urllib.request.urlopen(request, timeout=_LIST_S)  # noqa: S310


def _from_index(*words: str) -> str:
    """As `_pip`. Where no index answers, pip says only that it found nothing; this says why."""
    try:
        return _pip(*words)
    except ReleaseError:
        if (index := _index()) is not None and (why := _why_unreachable(index)):
            text = f"the package index {index} can't be reached: {why}"
            raise ReleaseError(f"{text}; see pip's settings and the network") from None
        raise


def _why_unreachable(index: str) -> str | None:
    try:
        _asked(index).close()
    except (HTTPError, ValueError, HTTPException):  # it answers
        return None
    except OSError as error:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, SSLError):  # pip may have other certificates
            return None
        return (reason.strerror if isinstance(reason, OSError) else None) or str(reason)
    return None


def _versions_of_pip() -> list[str]:
    # Text, because the pip that comes with Python 3.11 prints no JSON here.
    shown = re.search(
        r"^Available versions: (.+)$", _from_index("index", "versions", PACKAGE), re.MULTILINE
    )
    if shown is None:
        raise ReleaseError(f"pip index names no versions of {PACKAGE}")
    return shown[1].split(", ")


def _pip(*words: str) -> str:
    """What a command of pip prints. Raises `ReleaseError` with pip's own reason."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *words]
    with ExitStack() as stack:
        with _uninterrupted():
            pip = subprocess.Popen(  # noqa: S603 - pip, with versions that were checked
                command,
                env={**os.environ, "COLUMNS": "10000", "PYTHONIOENCODING": "utf-8"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            stack.enter_context(pip)
            stack.callback(pip.kill)
        try:
            said, complained = pip.communicate(timeout=_PIP_S)
        except subprocess.TimeoutExpired:
            raise ReleaseError(f"pip {words[0]} took longer than {_PIP_S:.0f} s") from None
    if pip.returncode:
        lines = complained.decode("utf-8", "replace").splitlines()
        errors = [line for line in lines if line.startswith("ERROR:")] or lines[-1:]
        reason = errors[-1].removeprefix("ERROR:").strip() if errors else "no reason given"
        raise ReleaseError(f"pip {words[0]}: {reason}")
    return said.decode("utf-8", "replace")


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits for the end of the context. What is made in it is then known, and can be removed
    or killed; a pip that nobody knows would go on and write into the cache. The signal is not
    blocked, since another thread may take it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[FrameType | None] = []
    handler = signal.signal(signal.SIGINT, lambda _, frame: came.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came and callable(handler):
            handler(signal.SIGINT, came[0])
