"""`finbench fetch`: the data that a suite's authors publish, checked and put in its place."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import force, run
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from bench.suites.paper import DataFile, Repository

FETCH_S = 300.0


@click.command()
@click.argument("suite", metavar="SUITE|FILE")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder to put the files in. Default: data/SUITE.",
)
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, path_type=Path),
    help="A clone of the authors' repository, or a folder or file that you have; nothing is "
    "downloaded then.",
)
@force
@click.option("--list", "only_list", is_flag=True, help="Only say what there is to fetch.")
def fetch(suite: str, out: Path | None, source: Path | None, force: bool, only_list: bool) -> None:
    """Fetch the published data of a suite, or one of its files by name, such as btc.json, and check
    them.

    A file is taken from --from, else downloaded where this machine reaches its address. One that is
    in its place already is left as it is.
    """
    from bench.suites import SUITES

    wanted = ""
    for name, one in SUITES.items():
        own = one.paper.repository.files if one.paper and one.paper.repository else ()
        if suite not in SUITES and any(Path(file.path).name == suite for file in own):
            suite, wanted = name, suite
    kind = SUITES.get(suite)
    paper = kind.paper if kind is not None else None
    if paper is None or paper.repository is None:
        public = [n for n, of in SUITES.items() if of.paper and of.paper.repository]
        why = f"{paper.title} publishes no data" if paper else f"{suite!r} is no published suite"
        raise click.UsageError(f"{why}; there is data of {', '.join(sorted(public))}")
    repository, folder = paper.repository, out or Path("data") / suite
    if wanted:
        files = tuple(f for f in repository.files if Path(f.path).name == wanted)
        repository = replace(repository, files=files)
    echo(f"{repository.name} at {repository.revision}, licence {repository.licence}", err=True)
    if only_list:
        for file in repository.files:
            echo(f"{repository.url(file)}  git blob {file.blob or 'not known here'}")
        return
    run(lambda: _fetch(repository, folder, source, force=force))


async def _fetch(
    repository: "Repository", folder: Path, source: Path | None, *, force: bool
) -> int:
    from anyio import to_thread

    missing = []
    for number, file in enumerate(repository.files, 1):
        place = folder / file.path
        where = f"{number} of {len(repository.files)}: {file.path}"
        try:
            if await to_thread.run_sync(_is_there, place, file, force):
                echo(f"{where}: is there already", err=True)
                continue
            content = await (
                _download(repository, file)
                if source is None
                else to_thread.run_sync(_found, source, file)
            )
            _check(content, file)
            await to_thread.run_sync(_put, place, content)
        except ValueError as error:
            missing.append(f"{where}: {error}\n  from {repository.url(file)}")
        except OSError as error:
            missing.append(f"{where}: {error.filename or place}: {error.strerror}")
        else:
            checked = "checked" if file.blob else "no checksum is known here"
            echo(f"{where}: {len(content):,} bytes, {checked}", err=True)
    for text in missing:
        echo(text, err=True)
    if missing:
        hint = "get them on a machine that reaches these addresses, and name them with --from"
        echo(f"finbench: {len(missing)} of {len(repository.files)} files lack; {hint}", err=True)
        return 1
    echo(str(folder))
    return 0


def _is_there(place: Path, file: "DataFile", force: bool) -> bool:
    """Whether the file is in its place. Raises `ValueError` if something else is."""
    from bench.suites.paper import MOST_BYTES, blob_of
    from manifests.common.regular_file import read_text

    if force or not place.exists():
        return False
    if not file.blob or blob_of(read_text(place, MOST_BYTES)) == file.blob:
        return True
    raise ValueError(f"{place} is there, and is not the published one; --force replaces it")


def _check(content: bytes, file: "DataFile") -> None:
    """Raises `ValueError` for content that is not the file's."""
    from bench.suites.paper import blob_of

    if file.blob and (blob := blob_of(content)) != file.blob:
        raise ValueError(f"it is git blob {blob}, the published one is {file.blob}")
    if not content.lstrip().startswith((b"{", b"[")):
        raise ValueError("it holds no JSON")


def _put(place: Path, content: bytes) -> None:
    from manifests.common.files import replaced_file

    place.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(place) as written:
        written.write(content)


async def _download(repository: "Repository", file: "DataFile") -> bytes:
    """Raises `OSError` and `ValueError`."""
    import aiohttp

    from bench.suites.paper import MOST_BYTES

    timeout = aiohttp.ClientTimeout(total=FETCH_S, sock_connect=10)
    content = bytearray()
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=True) as session,
            session.get(repository.url(file), allow_redirects=False) as response,
        ):
            if response.status != 200:
                raise ValueError(f"answered {response.status}")
            async for chunk in response.content.iter_any():
                content += chunk
                if len(content) > MOST_BYTES:
                    raise ValueError(f"it has over {MOST_BYTES} bytes")
    except TimeoutError:
        raise ValueError("no answer in time") from None
    except aiohttp.ClientError as error:
        raise ValueError(f"this machine does not reach it ({type(error).__name__})") from None
    return bytes(content)


def _found(source: Path, file: "DataFile") -> bytes:
    """The content of a file that the user has. Raises `OSError` and `ValueError`."""
    from bench.suites.paper import MOST_BYTES, places
    from manifests.common.regular_file import read_text

    for place in places(source, file):
        if place.is_file():
            content: bytes = read_text(place, MOST_BYTES)
            return content
    hint = "; it is a bare repository: clone it" if (source / "HEAD").is_file() else ""
    raise ValueError(f"it is not in {source}{hint}")
