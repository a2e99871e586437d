"""The notebook of the documentation, run as its readers run it."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.checkout import ROOT

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def shown(notebook: Any) -> list[Any]:
    """The text of each output by cell; pictures are left out."""
    return [
        [output.get("text") or output["data"]["text/plain"] for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code" and "plot" not in cell.source
    ]


def test_the_notebook_shows_what_its_cells_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINPORT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    committed = shown(notebook)
    assert any(committed)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=120, resources=resources).execute()
    assert shown(notebook) == committed
