"""What tests of the API share."""

from pathlib import Path

import pytest


@pytest.fixture
def kept_tables(tables: Path) -> Path | None:
    """Tests of the API don't test how AkShare answers."""
    return tables
