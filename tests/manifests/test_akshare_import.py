"""Generated manifests against the ones that people wrote for the same functions."""

import pytest

from manifests import AkShareBinding, Catalog, Manifest, Parameter, Signature
from manifests.akshare_import import imported
from tests.support.installed import NEEDS_AKSHARE

pytestmark = NEEDS_AKSHARE

Pairs = list[tuple[Manifest, Manifest]]


@pytest.fixture(scope="module")
def generated() -> dict[str, Manifest]:
    """What the import would write for each function, by its name."""
    return {m.name: m for m in imported(None, Catalog([])).manifests}


@pytest.fixture(scope="module")
def pairs(catalog: Catalog, generated: dict[str, Manifest]) -> Pairs:
    """Each AkShare tool of the catalogue, and what the import would write for it."""
    known = [m for m in catalog.select(source="akshare") if m.unavailable is None]
    assert {m.name for m in known} <= {*generated}
    return [(m, generated[m.name]) for m in known]


def _parameters(pairs: Pairs) -> list[tuple[str, Parameter, Parameter]]:
    return [
        (f"{ours.name}.{p.name}", p, made)
        for ours, generated in pairs
        for p in ours.parameters
        for made in generated.parameters
        if made.name == p.name and p.withdrawn is None
    ]


def test_hosts_and_pages_are_those_that_people_found(pairs: Pairs) -> None:
    bindings = [
        (a.binding, b.binding)
        for a, b in pairs
        if isinstance(a.binding, AkShareBinding) and isinstance(b.binding, AkShareBinding)
    ]
    others = [a for a, b in bindings if a.hosts and a.hosts[0] != b.hosts[0]]
    assert len(others) <= 4
    assert sum(a.paged != b.paged for a, b in bindings) <= 7
    assert not [a for a, b in bindings if a.paged and not b.paged]


def test_hardly_an_answer_is_kept_longer_than_people_allow(pairs: Pairs) -> None:
    staler = {a.name for a, b in pairs if a.timeliness == "realtime" != b.timeliness}
    assert staler <= {"currency_pair_map", "option_sse_greeks_sina", "stock_irm_cninfo"}
    apart = [a.name for a, b in pairs if not {*a.regulatory_domains} & {*b.regulatory_domains}]
    assert len(apart) <= 15


def test_parameters_are_read_as_people_read_them(pairs: Pairs) -> None:
    found = _parameters(pairs)
    assert len(found) > 700
    assert not [name for name, ours, made in found if ours.type != made.type]
    assert not [name for name, ours, made in found if ours.filled_by != made.filled_by]
    assert len([name for name, ours, made in found if ours.required != made.required]) <= 25
    other = [name for name, ours, made in found if made.enum and ours.enum != made.enum]
    assert other == ["stock_market_pe_lg.symbol"]


def test_every_example_of_a_generated_manifest_is_a_value_that_it_takes(
    catalog: Catalog, generated: dict[str, Manifest]
) -> None:
    for manifest in (m for m in generated.values() if catalog.get(m.name) is None):
        signature = Signature(manifest)
        signature.bind(manifest.sample())
        examples = {
            p.name: p.example
            for p in manifest.parameters
            if p.example is not None and p.filled_by == "agent"
        }
        assert {*examples} <= {*signature.bind(examples)}, manifest.name


def test_an_argument_that_names_the_instrument_is_required(catalog: Catalog) -> None:
    names = ("spot_hist_sge", "bond_gb_us_sina", "reits_hist_em", "energy_carbon_domestic")
    made = {m.name: m.parameters[0] for m in imported(names, catalog).manifests}
    assert [p.required for p in made.values()] == [True, True, True, False]
    assert made["reits_hist_em"].format is None
    assert made["spot_hist_sge"].default == "Au99.99"
    listed = made["energy_carbon_domestic"]
    assert (listed.enum, "choice of" in listed.description) == (None, True)
