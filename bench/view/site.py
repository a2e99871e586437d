"""The pages over HTTP, on loopback only and for reading only.

A page of another site can neither read them nor reach them by a name of its own (DNS rebinding):
the Host must be one of this machine's, and nothing allows other origins.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from aiohttp import hdrs, web
from anyio import to_thread
from multidict import MultiMapping

from bench.analysis.compare import NothingInCommonError
from bench.own import words_of
from bench.report.report import SHEET
from bench.runs.about import RunDirectoryError
from bench.suites.suite import SuiteError
from bench.view import run_page, runs_page
from bench.view.comparison import paired, tabled
from bench.view.listing import Listed, Listing, Runs, Stamp, stamp_of
from bench.view.opened import FILES, Opened
from bench.view.work import AT_ONCE, Kept, UnderWayError
from gateway.access.guard import name_and_port
from gateway.common.html import environment, policy, rendered, style, text_of

OPENED = 4
"""The most runs whose pages are kept."""

COMPARISONS = 8
MOST_COMPARED = 50
REFRESH_S = 1

SELF = "'self'"
"""Of a policy: where forms may go."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""What a browser on this machine may call it."""


log = logging.getLogger("finport")


class NoPageError(Exception):
    """There is no such page; the text says why."""


Made = tuple[str, Callable[[], Mapping[str, Any]]]
"""The template of a page, and what makes its content, which may take some time."""

Query = MultiMapping[str]


class Site:
    """The pages of the runs of a folder. `host` is the address that they are served at."""

    def __init__(self, listing: Listing, host: str) -> None:
        threads = asyncio.Semaphore(AT_ONCE)
        self._listing = listing
        self._names = NAMES | {host}
        self._runs: Kept[Runs] = Kept(1, threads)
        self._opened: Kept[Opened] = Kept(OPENED, threads)
        self._compared: Kept[dict[str, Any]] = Kept(COMPARISONS, threads)
        self._templates = environment("bench.view", "bench.report")
        self._style = style(SHEET) + text_of("bench.view", "view.css")
        self._pages: Mapping[str, Callable[[Query], Awaitable[Made]]] = {
            "/": self._list,
            "/run": self._run,
            "/episode": self._episode,
            "/compare": self._compare,
        }

    @classmethod
    @asynccontextmanager
    async def open(cls, listing: Listing, host: str, port: int) -> AsyncIterator[str]:
        """Serve at `host`, at a free port if `port` is 0; the URL. Raises `OSError` where that
        can't be had.
        """
        site = await to_thread.run_sync(cls, listing, host)
        app = web.Application()
        app.router.add_get("/{path:.*}", site.answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            address, taken = runner.addresses[0][:2]
            name = f"[{address}]" if ":" in address else address
            yield f"http://{name}:{taken}/"
        finally:
            await runner.cleanup()

    async def answer(self, request: web.Request) -> web.Response:
        """The page at the path of a request."""
        site = name_and_port(request.headers.get(hdrs.HOST, ""))
        if site is None or site[0] not in self._names:
            text = "these pages are at " + ", ".join(sorted(self._names))
            raise web.HTTPForbidden(text=text, headers=HEADERS)
        status, refresh_s = 200, 0
        try:
            page = self._pages.get(request.path)
            if page is None:
                raise NoPageError("There is no page of this address.")
            made = await page(request.query)
            return await self._rendered(*made)
        except UnderWayError as error:
            status, refresh_s, title = 202, REFRESH_S, "Reading"
            text = f"The files are being read; then the page comes by itself. {error}"
        except NoPageError as error:
            status, title, text = 404, "No such page", str(error)
        except (RunDirectoryError, SuiteError, NothingInCommonError) as error:
            status, title, text = 422, "It can't be shown", str(error)
        except OSError as error:
            text = f"{error.filename or self._listing.root}: {error.strerror}"
            status, title = 422, "It can't be read"
        except Exception as error:  # what hostile files may lead to is not known
            log.exception("%s", request.rel_url)
            status, title, text = 500, "It can't be shown", words_of(error)
        shown = {"title": title, "text": text, "refresh_s": refresh_s}
        return await self._rendered("message.html.j2", lambda: shown, status)

    async def _rendered(
        self, template: str, make: Callable[[], Mapping[str, Any]], status: int = 200
    ) -> web.Response:
        def page() -> str:
            made = self._templates.get_template(template)
            return rendered(made, self._style, "", forms=SELF, **make())

        text = await to_thread.run_sync(page)
        allowed = f"{policy(self._style, forms=SELF)}; frame-ancestors 'none'"
        headers = {**HEADERS, "Content-Security-Policy": allowed}
        return web.Response(text=text, status=status, content_type="text/html", headers=headers)

    async def _found(self) -> Runs:
        """All runs, as they are now."""
        return await self._runs.get("", object(), self._listing.runs)

    async def _named(self, name: str) -> Listed:
        """A run of the list. Raises `NoPageError`."""
        runs = self._runs.last("")
        if runs is None or name not in runs.by_name:
            runs = await self._found()
        found = runs.by_name.get(name)
        if found is None:
            raise NoPageError(f"No run is named {name[:200]!r}.")
        return found

    async def _read(self, listed: Listed) -> Opened:
        state = await _stamps(listed)
        return await self._opened.get(
            listed.name, state, partial(Opened.read, self._listing, listed)
        )

    async def _list(self, query: Query) -> Made:
        runs, asked = await self._found(), runs_page.Query.of(query)
        title = f"Runs in {self._listing.title}"
        title += f" with {asked.model}" if asked.model else ""
        return "runs.html.j2", lambda: {"title": title, **runs_page.content(runs, asked)}

    async def _run(self, query: Query) -> Made:
        listed = await self._named(query.get("name", ""))
        opened = await self._read(listed)
        return "run.html.j2", lambda: {
            **opened.shown,
            **run_page.episodes_content(listed.name, opened, query),
        }

    async def _episode(self, query: Query) -> Made:
        listed = await self._named(query.get("run", ""))
        opened = await self._read(listed)
        name = query.get("episode", "")

        def content() -> dict[str, Any]:
            entry = opened.entry(name)
            if entry is None:
                raise NoPageError(f"The run {listed.name} has no episode {name[:200]!r}.")
            return run_page.episode_content(listed.name, opened, entry, query)

        return "episode.html.j2", content

    async def _compare(self, query: Query) -> Made:
        names = [*dict.fromkeys(query.getall("run", []))]
        if not 2 <= len(names) <= MOST_COMPARED:
            raise NoPageError(f"Check two runs or more to compare them, at most {MOST_COMPARED}.")
        listed = [await self._named(name) for name in names]
        state = await _stamps(*listed)
        template, how = ("pair.html.j2", paired) if len(names) == 2 else ("table.html.j2", tabled)
        work = partial(how, self._listing, listed)
        shown = await self._compared.get("\n".join(names), state, work)
        return template, lambda: shown


async def _stamps(*listed: Listed) -> tuple[Stamp, ...]:
    """What tells whether the files of runs have changed."""
    return await to_thread.run_sync(lambda: tuple(stamp_of(one.path, *FILES) for one in listed))
