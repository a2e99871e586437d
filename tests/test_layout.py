"""Tests mirror the folders of the code; what several tests use is in `tests/support/`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.checkout import ROOT

TESTS = ROOT / "tests"


def imported(file: Path) -> Iterator[str]:
    """Modules that a file imports, and what it imports from them."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_nothing_imports_a_test_module_or_conftest() -> None:
    found = {
        f"{file.relative_to(ROOT)} imports {name}"
        for file in TESTS.rglob("*.py")
        for name in imported(file)
        if re.match(r"tests\.(.+\.)?(test_|conftest)", name)
    }
    assert found == set()


def test_every_folder_with_tests_is_a_folder_of_the_code() -> None:
    folders = {file.parent.relative_to(TESTS) for file in TESTS.rglob("test_*.py")}
    assert {str(folder) for folder in folders if not (ROOT / folder).is_dir()} == set()
