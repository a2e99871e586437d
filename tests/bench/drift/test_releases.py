"""Fetching releases with pip from an index on this machine, and the cache of them."""

import re
from pathlib import Path

import pytest

from bench.drift.releases import ReleaseError, Releases, evenly, order
from tests.support.wheels import list_of, one_module, package_index, wheel_name

UNREACHED = r"the package index http://127\.0\.0\.1:9/simple can't be reached: Connection refused"

DATES = {"1.0.9": "2026-01-01", "1.0.10": "2026-01-11", "1.1.0": "2026-02-01"}


pytestmark = pytest.mark.usefixtures("no_index")


@pytest.fixture
def served(tmp_path: Path) -> Path:
    for version in DATES:
        one_module(tmp_path / "served", version, "def quote(): ...\n", "quote")
    return tmp_path / "served"


def silent(_: str) -> None:
    pass


def test_releases_are_fetched_once_with_their_dates(
    served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    with package_index(served, list_of(served, DATES)) as (url, asked):
        monkeypatch.setenv("PIP_INDEX_URL", url)
        releases = Releases(tmp_path / "cache", told.append)
        assert releases.versions() == ["1.0.9", "1.0.10", "1.1.0"]
        got = releases.get(["1.0.9", "1.1.0"])
        assert [r.uploaded and r.uploaded.date().isoformat() for r in got] == [
            "2026-01-01",
            "2026-02-01",
        ]
        assert all(r.wheel.read_bytes() == (served / r.wheel.name).read_bytes() for r in got)
        assert releases.fetched_bytes == sum(r.wheel.stat().st_size for r in got)
        assert told[0] == "fetching akshare 1.0.9: 1 of 2"
        assert re.fullmatch(r"fetching akshare 1\.1\.0: 2 of 2, about \d+ s left", told[1])

        before = len(asked)
        again = Releases(tmp_path / "cache", told.append)
        assert again.get(["1.0.9", "1.1.0"]) == got
        assert (len(asked), len(told)) == (before, 2)
    names = {path.name for path in (tmp_path / "cache").iterdir()}
    assert names == {wheel_name("1.0.9"), wheel_name("1.1.0"), "releases.json"}


def test_a_wheel_other_than_the_index_lists_is_refused(
    served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = list_of(served, DATES)
    one_module(served, "1.0.9", "def other(): ...\n", "other")
    with package_index(served, listed) as (url, _):
        monkeypatch.setenv("PIP_INDEX_URL", url)
        releases = Releases(tmp_path / "cache", silent)
        with pytest.raises(ReleaseError, match="pip download: "):
            releases.get(["1.0.9"])
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["releases.json"]


def test_without_an_index_what_is_not_in_the_cache_fails_with_pips_reason(served: Path) -> None:
    with pytest.raises(ReleaseError, match=UNREACHED):
        Releases(served, silent).get(["1.0.8"])
    with pytest.raises(ReleaseError, match=UNREACHED):
        Releases(served, silent).versions()


def test_an_index_with_a_password_is_left_to_pip(
    served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with package_index(served, list_of(served, DATES)) as (url, _):
        monkeypatch.setenv("PIP_INDEX_URL", url.replace("://", "://someone:secret@"))
        releases = Releases(tmp_path / "cache", silent)
        assert releases.versions() == ["1.0.9", "1.0.10", "1.1.0"]
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("text", ["{", '{"files": [{"filename": 1}, 5, null]}'])
def test_a_list_of_another_form_is_none(served: Path, text: str) -> None:
    (served / "releases.json").write_text(text)
    (release,) = Releases(served, silent).get(["1.0.9"])
    assert release.uploaded is None


def test_versions_have_an_order_and_nothing_else_is_one() -> None:
    assert sorted(["1.0.10", "1.0.9"], key=order) == ["1.0.9", "1.0.10"]
    for text in ("", "1", "../1.2", "1.0rc1", "1.0.0 --index-url=x", "-1.0", "١.٠"):
        with pytest.raises(ReleaseError, match="is no release"):
            order(text)


def test_evenly_spaced_releases_keep_both_ends() -> None:
    versions = [str(number) for number in range(11)]
    assert evenly(versions, 3) == ["0", "5", "10"]
    assert evenly(versions, 2) == ["0", "10"]
    assert evenly(versions, 50) == versions
