"""`finport world`: pages about the simulated market."""

import json
import re

from adapters.simulator import FUNCTIONS
from tests.support.checkout import ROOT
from tests.support.commands import finport


def test_the_page_names_the_functions_that_read_the_market() -> None:
    page = (ROOT / "docs" / "simulated.md").read_text()
    assert set(re.findall(r"`(\w+)`", page.partition("## Invented")[0])) == FUNCTIONS, (
        "finport world tools --markdown > docs/simulated.md"
    )
    rows = json.loads(finport("world", "tools", "--json").stdout)
    assert {name for row in rows for name in row["real"]} == FUNCTIONS
    assert all(bool(row["why"]) == bool(row["invented"]) for row in rows)
