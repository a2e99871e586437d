"""`finbench fetch`: the data that a suite's authors publish, checked and put in its place."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import run
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from bench.suites.paper import DataFile, Repository

MOST_BYTES = 256 * 2**20
"""The largest file that is fetched."""

FETCH_S = 300.0


@click.command()
@click.argument("suite")
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
@click.option("--list", "only_list", is_flag=True, help="Only say what there is to fetch.")
def fetch(suite: str, out: Path | None, source: Path | None, only_list: bool) -> None:
    """Fetch the published data of SUITE, check each file, and say how to use it.

    A file is taken from --from, else downloaded where this machine reaches its address.
    """
    from bench.suites import SUITES

    kind = SUITES.get(suite)
    paper = kind.paper if kind is not None else None
    if paper is None or paper.repository is None:
        public = [n for n, of in SUITES.items() if of.paper and of.paper.repository]
        why = f"{paper.title} publishes no data" if paper else f"{suite!r} is no published suite"
        raise click.UsageError(f"{why}; there is data of {', '.join(sorted(public))}")
    repository, folder = paper.repository, out or Path("data") / suite
    echo(f"{repository.name} at {repository.revision}, licence {repository.licence}", err=True)
    if only_list:
        for file in repository.files:
            echo(f"{repository.url(file)}  git blob {file.blob or 'not known here'}")
        return
    run(lambda: _fetch(repository, folder, source))


async def _fetch(repository: "Repository", folder: Path, source: Path | None) -> int:
    from anyio import to_thread

    from bench.suites.paper import blob_of
    from manifests.common.files import replaced_file

    missing = []
    for number, file in enumerate(repository.files, 1):
        place = folder / file.path
        where = f"{number} of {len(repository.files)}: {file.path}"
        try:
            content = await (
                _download(repository, file)
                if source is None
                else to_thread.run_sync(_found, source, file)
            )
        except (OSError, ValueError) as error:
            missing.append(f"{where}: {error}\n  from {repository.url(file)}")
            continue
        if file.blob and (blob := blob_of(content)) != file.blob:
            missing.append(f"{where}: it is git blob {blob}, the published one is {file.blob}")
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(place) as written:
            written.write(content)
        checked = "checked" if file.blob else "no checksum is known here"
        echo(f"{where}: {len(content):,} bytes, {checked}", err=True)
    for text in missing:
        echo(text, err=True)
    if missing:
        hint = "get them on a machine that reaches these addresses, and name them with --from"
        echo(f"finbench: {len(missing)} of {len(repository.files)} files lack; {hint}", err=True)
    echo(str(folder))
    return 1 if missing else 0


async def _download(repository: "Repository", file: "DataFile") -> bytes:
    """Raises `OSError` and `ValueError`."""
    import aiohttp

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
    from bench.suites.paper import blob_of, places
    from manifests.common.regular_file import read_text

    for place in places(source, file):
        if place.is_file():
            content: bytes = read_text(place, MOST_BYTES)
            if not file.blob or blob_of(content) == file.blob or place.name in file.path:
                return content
    raise ValueError(f"it is not in {source}")
