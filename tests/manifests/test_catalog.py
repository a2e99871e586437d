import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from manifests import AkShareBinding, Catalog, CatalogError, Manifest, Signature
from manifests.catalog import DATA, read, text_of
from tests.support.tools import tool as tool_named


def test_the_functions_that_akshare_lost_are_present_and_say_why(catalog: Catalog) -> None:
    lost = {m.name: m.unavailable for m in catalog if m.unavailable}
    assert len(lost) == 8
    assert "stock_comment_detail_scrd_desire_daily_em" in lost
    assert "stock_individual_fund_flow_rank_async" in lost
    assert sum(name.startswith("get_qhkc_") for name in lost) == 6
    assert set(lost.values()) == {"AkShare 1.19.5 no longer has this function"}


def test_every_akshare_sample_call_fits_the_installed_function(catalog: Catalog) -> None:
    akshare = pytest.importorskip("akshare", reason="the akshare extra is not installed")
    import inspect

    for manifest in catalog:
        if isinstance(manifest.binding, AkShareBinding) and manifest.unavailable is None:
            function = getattr(akshare, manifest.binding.function)
            arguments = Signature(manifest).bind(manifest.sample())
            filled = {p.name: "x" for p in manifest.parameters if p.filled_by != "agent"}
            inspect.signature(function).bind(**arguments, **filled)


def test_files_are_in_their_one_form(tmp_path: Path) -> None:
    for file in sorted(DATA.rglob("*.json")):
        (tmp_path / file.name).write_text(text_of(read(file)), encoding="utf-8")
        assert (tmp_path / file.name).read_bytes() == file.read_bytes(), file.name


def test_credentials_are_never_an_agents_business(catalog: Catalog) -> None:
    hidden = {p.name for m in catalog for p in m.parameters if p.filled_by == "credential"}
    assert hidden == {"apikey", "api_key", "token", "cookie"}
    agents = {p.name for m in catalog for p in m.parameters if p.filled_by == "agent"}
    assert not agents & hidden


def test_select_needs_every_tag(catalog: Catalog) -> None:
    found = catalog.select(source="akshare", domain="economic_policy", timeliness="monthly")
    assert [m.name for m in found] == ["article_epu_index"]
    assert catalog.select(domain="esg", source="rapidapi") == []


def test_the_revision_depends_on_what_changes_answers_only() -> None:
    fields: dict[str, Any] = {
        "name": "t",
        "description": "One.",
        "timeliness": "daily",
        "intent_type": "informational",
        "regulatory_domains": ("equity",),
        "binding": {"source": "akshare", "function": "t"},
    }
    one = Manifest.model_validate(fields)
    described = {**fields, "description": "Two.", "generated": "akshare 1.19.5"}
    assert Manifest.model_validate(described).revision == one.revision
    moved = {**fields, "binding": {"source": "akshare", "function": "u"}}
    assert Manifest.model_validate(moved).revision != one.revision


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[{", "bad.json: Invalid JSON"),
        ('[{"name": "a b"}]', "bad.json: 0.name: String should match pattern"),
        ('[{"nam": "x"}]', "bad.json: 0.name: Field required"),
    ],
)
def test_a_bad_file_is_named_with_the_reason(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(CatalogError, match=complaint):
        Catalog.load(tmp_path)


def test_an_empty_folder_and_a_repeated_name_are_refused(tmp_path: Path, catalog: Catalog) -> None:
    with pytest.raises(CatalogError, match="no manifest files"):
        Catalog.load(tmp_path)
    twin = tool_named(catalog, "get_coin")
    with pytest.raises(CatalogError, match="two tools are named get_coin"):
        Catalog([twin, twin])


def test_what_is_unavailable_follows_the_installed_akshare(tmp_path: Path) -> None:
    (tmp_path / "akshare").mkdir()
    text = "from akshare.x import (\n    get_qhkc_index,\n    stock_zh_a_hist,\n)\n"
    (tmp_path / "akshare/__init__.py").write_text(text)
    about = tmp_path / "akshare-1.18.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: akshare\nVersion: 1.18.1\n")
    code = (
        "from manifests import Catalog\n"
        "for name in ('get_qhkc_index', 'stock_zh_a_hist', 'bond_zh_us_rate', 'get_coin'):\n"
        "    print(Catalog.load().get(name).unavailable)"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    gone = "AkShare 1.18.1 does not have this function"
    assert done.stdout.splitlines() == ["None", "None", gone, "None"]
