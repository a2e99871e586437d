import pytest

from adapters.embeddings import EndpointEmbedder
from adapters.fault import UpstreamFault
from bench.analysis.queries import (
    Part,
    ablated,
    by,
    calibration,
    learnt,
    outcomes,
    queries,
    summary,
    worst,
)
from bench.analysis.retrieval import Question, dense_variants, measure, questions_of
from bench.suites import load_suite
from bench.suites.suite import SuiteError
from manifests import Catalog
from manifests.dense import DenseIndex, embedded_encoder, fused
from manifests.search import Search, akshare_documents
from tests.support.checkout import QUESTIONS
from tests.support.upstreams import embeddings, upstream


@pytest.mark.skipif(not QUESTIONS.is_file(), reason="the FinToolBench questions are not here")
def test_recall_at_20_of_the_published_questions_is_at_least_040(catalog: Catalog) -> None:
    result = measure(catalog.search.rank, questions_of(load_suite("fintoolbench", QUESTIONS)))
    assert result["questions"] == 295
    assert result["recall@20"] >= 0.40
    assert result["recall@5"] < result["recall@20"] < result["recall@50"]


@pytest.mark.parametrize("part", ["learn", "held"])
def test_our_own_queries_find_their_tools(catalog: Catalog, part: Part) -> None:
    every = queries(part)
    found, _ = outcomes(catalog.search.find, every[:: len(every) // 100])
    shares = summary(found)
    assert shares["within 5"]["share"] > 0.9
    assert shares["within 20"]["share"] > 0.95
    assert shares["nothing fits, wrong"]["share"] < 0.1
    assert shares["nothing fits, right"]["share"] > 0.6
    assert {*by(found, "language")} <= {"en", "zh", "mixed"}
    assert len(worst(found)) <= 20
    assert sum(row["queries"] for row in calibration(found)) == len(found)


def test_labels_name_tools_of_the_catalogue_and_no_query_is_there_twice(catalog: Catalog) -> None:
    every = [*queries("learn"), *queries("held")]
    assert len({one.query for one in every}) == len(every) > 1_000
    assert all(catalog.get(tool) for one in every for tool in one.tools)
    assert sum(not one.tools for one in every) > 60


def test_weights_are_learnt_from_queries(catalog: Catalog) -> None:
    some = [one for one in queries("learn") if one.kind == "short"][:16]
    some += [one for one in queries("learn") if not one.tools][:4]
    ranker = learnt(catalog.search, some)
    search = Search(catalog, akshare_documents(), encoder=embedded_encoder(), ranker=ranker)
    found, _ = outcomes(search.find, some)
    shares = summary(found)
    assert shares["within 5"]["share"] > 0.9
    assert shares["nothing fits, right"]["share"] > 0.5
    without = ablated(catalog.search, some)["without facets"]
    assert not any("country" in name for name in without.weights)


def test_recall_is_counted_by_the_labels(catalog: Catalog) -> None:
    questions = [
        Question("Chinese and US treasury yields", ("bond_zh_us_rate", "no_such_tool")),
        Question("zzzzz", ("bond_zh_us_rate",)),
    ]
    result = measure(catalog.search.rank, questions)
    assert (result["recall@20"], result["micro_recall@20"]) == (0.25, 0.3333)
    assert (result["none@20"], result["all@20"]) == (1, 0)


def test_our_own_questions_are_found(catalog: Catalog) -> None:
    result = measure(catalog.search.rank, questions_of(load_suite("starter")))
    assert result["recall@20"] > 0.8


def test_tasks_without_labels_are_refused() -> None:
    with pytest.raises(SuiteError, match="finova-sample says itself which tools are offered"):
        questions_of(load_suite("finova-sample"))


@pytest.mark.anyio
async def test_dense_and_hybrid_rankings_come_from_an_endpoint(catalog: Catalog) -> None:
    questions = questions_of(load_suite("starter"))
    async with upstream(embeddings) as url:
        embedder = EndpointEmbedder(url, "words", "k")
        ranks = await dense_variants(catalog, questions, embedder)
        with pytest.raises(UpstreamFault, match="answered 401"):
            await EndpointEmbedder(url, "words").embed(["x"])
    dense, hybrid = (measure(ranks[name], questions) for name in ("dense", "hybrid"))
    assert 0.1 < dense["recall@20"] < hybrid["recall@20"]
    with pytest.raises(UpstreamFault, match="on the way to the embeddings endpoint"):
        await EndpointEmbedder("http://127.0.0.1:1", "words").embed(["x"])


def test_reciprocal_rank_fusion_is_as_published() -> None:
    one, two = [("a", 9.0), ("b", 8.0)], [("b", 0.9), ("c", 0.8)]
    ranking = fused((one, two), 3)
    assert [name for name, _ in ranking] == ["b", "a", "c"]
    assert [score for _, score in ranking] == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62])


def test_the_nearest_vector_comes_first_whatever_its_length() -> None:
    index = DenseIndex([("far", (0.0, 1.0)), ("near", (5.0, 0.1)), ("null", (0.0, 0.0))])
    assert [name for name, _ in index.rank((1.0, 0.0), 3)] == ["near", "far", "null"]
    assert index.rank((1.0, 0.0), 3, allowed={"far"}) == [("far", 0.0)]
