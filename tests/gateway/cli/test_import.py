"""`finport manifests import akshare` as a user runs it."""

import json
import os
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from manifests import AkShareBinding, Catalog
from manifests.akshare_source import akshare_index
from tests.support.checkout import ROOT
from tests.support.commands import FINPORT, finport
from tests.support.installed import NEEDS_AKSHARE

pytestmark = NEEDS_AKSHARE

IMPORT = ("manifests", "import", "akshare")


def test_all_functions_beyond_the_catalogue_become_valid_tools(
    tmp_path: Path, catalog: Catalog
) -> None:
    done = finport(*IMPORT, "--all", "--out", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    every = {entry["name"] for entry in akshare_index()}
    beyond = every - {m.name for m in catalog}
    assert report["packaged"] == len(every) - len(beyond)
    assert {*report["imported"]} | {*report["refused"]} == beyond
    assert set(report["refused"].values()) == {
        "it returns nothing",
        "data is no text, number or boolean",
    }
    assert len(report["refused"]) <= 3
    written = Catalog.load(tmp_path)
    assert [m.name for m in written] == sorted(report["imported"])
    assert {m.generated for m in written} == {f"akshare {version('akshare')}"}
    assert all(m.binding.hosts for m in written)
    assert finport("manifests", "format", str(tmp_path)).stdout.startswith("3")  # files, all good
    again = finport(*IMPORT, "--all", "--out", str(tmp_path))
    assert again.stdout.endswith(
        f"{report['packaged']} of the catalogue, {len(written)} in the folder\n"
    )


def test_named_functions_are_added_to_the_files_of_their_families(tmp_path: Path) -> None:
    into = (*IMPORT, "--out", str(tmp_path))
    first = finport(*into, "bond_gb_us_sina")
    assert (first.returncode, first.stderr) == (0, "")
    assert f"1 tools written to {tmp_path}" in first.stdout
    ours = tmp_path / "bond.json"
    (tmp_path / "mine.json").write_text(ours.read_text().replace("bond_gb_us_sina", "spot_goods"))
    second = finport(*into, "bond_gb_zh_sina", "bond_gb_us_sina", "spot_goods")
    assert second.returncode == 1
    assert second.stderr == (
        f"bond_gb_us_sina: {ours} has it already; --force replaces it\n"
        f"spot_goods: {tmp_path / 'mine.json'} has it already; --force replaces it\n"
    )
    assert [m.name for m in Catalog.load(ours)] == ["bond_gb_us_sina", "bond_gb_zh_sina"]
    assert finport(*into, "bond_gb_us_sina", "spot_goods", "--force").returncode == 0
    goods = Catalog.load(tmp_path / "mine.json").get("spot_goods")
    assert goods is not None
    assert goods.upstream == "stock.finance.sina.com.cn"
    assert not (tmp_path / "spot.json").exists()


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        (("stock_zh_a_hist",), 1, "stock_zh_a_hist: the catalogue has a manifest for it already"),
        (("bond_gb_us_sian",), 1, "no function of that name; did you mean bond_gb_us_sina"),
        (("../../etc",), 1, "no function of that name"),
        (("volatility_yz_rv",), 1, "volatility_yz_rv: data is no text, number or boolean"),
        (("movie_boxoffice_weekly",), 1, "movie_boxoffice_weekly: it returns nothing"),
        (("spot_goods", "--prefix", "a b"), 1, "spot_goods: name: String should match"),
        ((), 2, "give names of functions, or --all"),
        (("spot_goods", "--all"), 2, "give names of functions, or --all"),
    ],
)
def test_what_can_not_be_imported_is_refused_with_the_reason(
    tmp_path: Path, given: tuple[str, ...], code: int, told: str
) -> None:
    done = finport(*IMPORT, *given, "--out", str(tmp_path / "new"))
    assert done.returncode == code
    assert told in done.stderr
    assert not (tmp_path / "new").exists()


def test_the_default_folder_is_in_the_configuration_of_the_user(tmp_path: Path) -> None:
    done = finport(
        *IMPORT, "spot_goods", "--prefix", "ak_", "--json", XDG_CONFIG_HOME=str(tmp_path)
    )
    folder = tmp_path / "finport" / "manifests" / "akshare"
    assert json.loads(done.stdout) == {
        "akshare": version("akshare"),
        "folder": str(folder),
        "files": [str(folder / "spot.json")],
        "imported": ["ak_spot_goods"],
        "packaged": 0,
        "present": 0,
        "refused": {},
    }
    (tool,) = Catalog.load(folder)
    assert isinstance(tool.binding, AkShareBinding)
    assert (tool.name, tool.binding.function) == ("ak_spot_goods", "spot_goods")


def test_a_file_that_is_no_manifest_file_stops_the_import(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[{}]")
    done = finport(*IMPORT, "spot_goods", "--out", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "Error: x.json: " in done.stderr


HOSTILE = '''
import os
open(os.environ["MARK"], "w")
TABLE = {"a": 1}
def good(symbol: str = "a", count: int = 3, __class__=None, rows: list = [1]) -> dict:
    """Docs.

    :param symbol: which, choice of {"a", "b"}
    :param count: how many
    """
    return TABLE[symbol]
def any_names(**kw): return 1
def waits(frame): return frame
async def later(): return 1
def yields(): yield 1
def many(n: int): return n
'''


def test_a_hostile_package_is_read_and_not_run(tmp_path: Path) -> None:
    package = tmp_path / "path" / "akshare"
    (package / "data").mkdir(parents=True)
    mark = tmp_path / "ran"
    for file in (package / "__init__.py", package / "code.py", tmp_path / "outside.py"):
        file.write_text(HOSTILE)
    good: dict[str, Any] = {
        "module": "akshare.code",
        "desc": "x" * 100_000,
        "params": [{"name": 1}, 2],
    }
    good |= {"outputs": {"name": "y"}, "url": "http://[", "example": "(" * 5_000}
    names = ("good", "any_names", "waits", "later", "yields", "many", "missing")
    interfaces = [{**good, "name": name} for name in names]
    bad = ("../x", "os.system", "A", "good\n", "", 7, None, "__import__('os')")
    interfaces += [{**good, "name": name} for name in bad]
    outside = ("akshare/../../outside", "akshare.....outside", "akshare", "os", "")
    interfaces += [
        {**good, "name": name, "module": module}
        for name, module in zip(("one", "two", "three", "four", "five"), outside, strict=True)
    ]
    (package / "data" / "interfaces.json").write_text(json.dumps({"interfaces": interfaces}))
    env = {**os.environ, "PYTHONPATH": f"{tmp_path / 'path'}:{ROOT}", "MARK": str(mark)}
    done = subprocess.run(
        [*FINPORT, *IMPORT, "--all", "--json", "--out", "out"],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["imported"] == ["good"]
    assert report["refused"] == {
        "any_names": "it takes arguments without names, or any names",
        "waits": "frame is required, but the package has no example of it",
        "later": "it is a coroutine",
        "yields": "it is a generator",
        "many": "n is required, but the package has no example of it",
        "missing": "the code of akshare.code does not define it",
        "one": f"the code of {outside[0]} does not define it",
        "two": f"the code of {outside[1]} does not define it",
        "three": "the code of akshare does not define it",
        "four": "the code of os does not define it",
        "five": "the code of  does not define it",
    }
    assert not mark.exists()
    (tool,) = Catalog.load(tmp_path / "out")
    assert len(tool.description) == 1_000
    symbol, count, odd, rows = tool.parameters
    assert (symbol.enum, symbol.default, symbol.required) == (("a",), "a", False)
    assert symbol.description == "which"
    assert (count.type, count.default, count.description) == ("integer", 3, "how many")
    assert odd.name == "__class__"
    assert rows.withdrawn is not None
    assert (tool.binding.hosts, tool.columns) == ((), ())
