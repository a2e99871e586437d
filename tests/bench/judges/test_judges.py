"""Judges: the kinds of answers, the rules, and the model that is asked."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.judges import JudgeParts
from bench.record import EpisodeRecord, ToolCallRecord, ToolVerdict
from bench.suites import load_suite
from bench.suites.fintoolbench.answer import READ, answer_kind, chosen, stated
from bench.suites.fintoolbench.llm_judge import LlmJudge, read_score, read_verdicts
from bench.suites.fintoolbench.needs import needs_of
from bench.suites.fintoolbench.rules import RulesJudge, score_of
from bench.suites.quantity import asked_scale, quantities
from bench.task import Task
from manifests import Catalog
from tests.support.checkout import QUESTIONS
from tests.support.played_model import INPUT, OUTPUT, Aside, PlayedModel, opened, playing, says
from tests.support.waiting import at_little_cost

pytestmark = pytest.mark.anyio


def episode(*tools: str, question: str = "?", gold: str = "", answer: str = "") -> EpisodeRecord:
    """An episode whose last round called `tools`, after one that called another tool."""
    calls = [("get_coin", 1), *((tool, 2) for tool in tools)] if tools else []
    return EpisodeRecord(
        episode="e",
        id="t",
        repeat=0,
        source_dataset="s",
        category="c",
        question=question,
        setting="made",
        ground_truth=gold,
        candidate_tools=[],
        started_at=0.0,
        execution_result=answer,
        tool_calls=[
            ToolCallRecord(step, tool, {}, "[]", True, None, None, "live", "1", 1.0)
            for tool, step in calls
        ],
    )


@pytest.fixture(scope="module")
def tasks() -> tuple[Task, ...]:
    if not QUESTIONS.is_file():
        pytest.skip("the published questions are not beside this checkout")
    return load_suite("fintoolbench", QUESTIONS).tasks


@pytest.mark.parametrize(
    ("gold", "kind"),
    [
        ("", "none"),
        (" \n", "none"),
        ('[{"criterium1": {"content": "x", "score": "0.5"}}]', "criterium"),
        ('{"a": 1}', "criterium"),
        ("{a: 1}", "free_text"),  # braces, but no JSON
        ("B", "choice"),
        (" e ", "choice"),
        ("F", "free_text"),
        ("AB", "free_text"),
        ("1.9%", "numeric"),
        ("-1,234.5 亿", "numeric"),
        ("1e9", "numeric"),
        ("3/4", "numeric"),
        ("万", "free_text"),  # no digit
        ("$8.70", "free_text"),  # a currency mark is not among the characters
        ("5元", "free_text"),
        ("nan", "free_text"),
        ("No.", "free_text"),
    ],
)
def test_the_kind_follows_from_the_gold_answer(gold: str, kind: str) -> None:
    assert answer_kind(gold) == kind


def test_every_published_question_has_a_kind(tasks: tuple[Task, ...]) -> None:
    kinds = Counter(answer_kind(task.answer) for task in tasks)
    assert kinds == {"criterium": 176, "free_text": 63, "choice": 42, "numeric": 14}
    assert sum(task.answer == "nan" for task in tasks) == 18, "texts, as they stand"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("the ratio is 0.66", None),
        (r"so \boxed{1} or rather \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        ("<answer>5</answer> of 7", "5"),
        ("The answer is 0.66. That is low.", "0.66"),
        ("**Final Answer:**\n\n42 days", "42 days"),
        ("答案：B。因为", "B"),
        ("First answer: 1. Final answer: 2", "2"),
    ],
)
def test_an_answer_says_where_it_is_stated(text: str, part: str | None) -> None:
    assert stated(text) == part


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234,567.89", 1234567.89),
        ("1.9%", 0.019),
        ("百分之5.4", 0.054),
        ("0.5个百分点", 0.005),
        ("25 basis points", 0.0025),
        ("3亿", 3e8),
        ("3千万", 3e7),
        ("1.2万亿", 1.2e12),
        ("2兆", 2e12),
        ("1亿2000万元", 1.2e8),
        ("5百万", 5e6),
        ("$5.4 billion", 5.4e9),
        ("US$5k", 5e3),
        ("￥１２，３４５．６万", 123456000.0),
        ("-$473 million", -473e6),
        ("−5.2", -5.2),
        ("1.5×10⁹", 1.5e9),
        (r"1.5 \times 10^{9}", 1.5e9),
        ("1.5e9", 1.5e9),
        ("2e-3", 0.002),
        ("1e999", float("inf")),
        ("9" * 400, float("inf")),
        ("3/4", 0.75),
        (r"42.69\%", 0.4269),
    ],
)
def test_a_number_is_read_with_its_unit(text: str, value: float) -> None:
    (found,) = quantities(text)
    assert found.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("on 2023-11-05, 12/31/2018 and December 31, 2018", []),
        ("2023年11月3日上涨2.52%", [0.0252]),
        ("FY2018 10-K, Q2, v1.2.3, the 2nd one", []),
        ("5%-10%", [0.05, 0.1]),
        ("- 5 items", [5]),
        ("20 to 30", [20, 30]),
    ],
)
def test_dates_and_names_are_no_numbers(text: str, values: list[float]) -> None:
    assert [found.value for found in quantities(text)] == pytest.approx(values)


@pytest.mark.parametrize(
    ("gold", "answer", "score"),
    [
        # half of the gold's last digit, or 1 % of it
        ("0.66", "0.665", 1),
        ("0.66", "0.67", 0),
        ("0.01", "0.014", 1),
        ("93.86", "94.7", 1),
        ("93.86", "94.9", 0),
        # units
        ("1.9%", "0.019", 1),
        ("1.9%", "1.9", 1),
        ("1.9%", "19%", 0),
        ("0.8", "80%", 1),
        ("3亿", "300,000,000", 1),
        ("3亿", "30000万元", 1),
        ("3亿", "3 million", 0),
        ("-473", "a loss of (473)", 1),
        ("473", "-473", 0),
        # which of several numbers: the stated one, else the last; years and workings aside
        ("42.69", "365 * 45 / 385 = 42.66 days as of 2018", 1),
        ("42.69", "42.69, or with 366 days 42.8 and 17 more", 0),
        ("42.69", "The answer is 42.69 days, not 43.9.", 1),
        ("42.69", "答案：\n42.69", 1),
        ("42.69", r"$\boxed{\text{DPO} = 42.69}$, see page 7", 1),
        ("2018", "in 2018", 1),
        ("1.5, 2.5", "from 2.5 to 1.5", 1),
        ("1.5, 2.5", "1.5", 0),
        ("5", "", 0),
        ("5", "no idea", 0),
    ],
)
def test_a_number_is_right_or_wrong(gold: str, answer: str, score: int) -> None:
    assert score_of("numeric", gold, answer) == score


def test_the_question_may_name_the_unit() -> None:
    assert asked_scale("Answer in USD millions.") == 1e6
    assert asked_scale("净利润是多少亿元？") == 1e8
    assert asked_scale("以百万美元计，资产是多少？") == 1e6
    assert (
        asked_scale("以百分比表示") is asked_scale("in 2018") is asked_scale("以万科为例") is None
    )
    question = "What is net PPE? Answer in USD millions."
    for answer in ("$5,409 million", "5.41 billion", "5409", "$5,409,000,000"):
        assert score_of("numeric", "5409", answer, question) == 1
    for answer in ("$5.6 billion", "5,409 billion", "5409 thousand"):
        assert score_of("numeric", "5409", answer, question) == 0
    assert score_of("numeric", "5409", "5,409 billion") == 1, "where nothing says in what"


figures = st.decimals(-(10**9), 10**9, places=2, allow_nan=False)


@given(figures, st.sampled_from(["{}", "{:,}", "it is {}.", "答案是{}元", "\\boxed{{{}}}"]))
def test_a_number_is_itself_in_every_form(figure: Any, form: str) -> None:
    assert score_of("numeric", str(figure), form.format(figure)) == 1


@given(st.floats(0.01, 1e9), st.floats(0.02, 10))
def test_a_number_off_by_more_than_a_hundredth_is_wrong(figure: float, share: float) -> None:
    gold, off = f"{figure:.4f}", f"{float(f'{figure:.4f}') * (1 + share):.4f}"
    assert score_of("numeric", gold, off) == 0


odd_text = st.text(alphabet="0129.,-/%()e× 亿万年月ABC股=$:：答案是选\\boxed{}\n", max_size=200)


@given(st.text(max_size=50) | odd_text)
def test_no_text_breaks_the_rules(text: str) -> None:
    assert score_of("numeric", "1.5", text, text) in {0.0, 1.0}
    assert score_of("choice", "B", text, text) in {0.0, 1.0}


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        ("(c).", "C"),
        ("B. CNY", "B"),
        ("答案：B", "B"),
        ("**正确选项为：E**", "E"),
        ("\\boxed{\\text{D}}", "D"),
        ("The correct answer is option D, since A is wrong", "D"),
        ("选项A不对，选项B也不对，故选C", "C"),
        ("A股市场上涨，因此选 B", "B"),
        ("A company of that size is E", "E"),
        ("Answer: A and B", None),
        ("答案是A、C", None),
        ("A、B都不对", None),
        ("I can't tell", None),
        ("", None),
        ("不是", "B"),  # the words of option B
        ("\\boxed{不是}", "B"),
        # a letter, then why not the others
        ("B。解析：A项错误，C项错误", "B"),
        ("A. 是\nB. 不是\nC. 不确定", None),
        ("选B不选A", "B"),
        ("I would not choose A. B is right, C is not.", "B"),
        ("A选项错误，B选项正确", "B"),
        ("Option B is correct. Option A is wrong.", "B"),
        ("A is correct, not B", "A"),
        ("Based on the data, B is the best, whereas A is not", "B"),
        ("Neither A nor B is correct", None),
        ("A和B正确", None),
        ("A正确，C正确", None),
    ],
)
def test_a_choice_is_one_letter(text: str, letter: str | None) -> None:
    assert chosen(text, "是不是公司？\nA. 是\nB. 不是\nC. 不确定") == letter


def test_the_gold_answers_of_the_published_questions_are_right(tasks: tuple[Task, ...]) -> None:
    judged = Counter[str]()
    for task in tasks:
        kind, gold = answer_kind(task.answer), task.answer
        for form in ("{}", "答案：{}", "So the final answer is {}.", "I get\n\n\\boxed{{{}}}"):
            score = score_of(kind, gold, form.format(gold), task.question)
            assert score == (1 if kind in ("numeric", "choice") else None), (gold, form)
        judged[kind] += 1
    assert (judged["numeric"], judged["choice"]) == (14, 42)


def test_a_question_of_any_length_is_searched_for_options_in_little_time() -> None:
    with at_little_cost(0.1):
        for odd in ("\n" * 20_000, f"A.{' ' * 20_000}x"):
            assert chosen("no", odd) is None


async def test_an_answer_of_any_length_is_judged_in_little_time(catalog: Catalog) -> None:
    judge = RulesJudge(catalog)
    long = episode(
        gold="42.69", answer="1.5 million (5%) of $3,000 by 2018-01-31; " * 50_000 + "42.69"
    )
    assert len(long.execution_result) > 100 * READ
    with at_little_cost(0.1):
        judgement = await judge.judge(long)
        assert judgement.scores == [1]


@pytest.mark.parametrize(
    ("question", "tool", "verdict"),
    [
        # advice, daily, equity
        ("What do analysts say about this stock right now?", "stock_price_js", (True, True, True)),
        ("比特币现在多少钱？", "stock_price_js", (True, None, False)),
        # balance sheets are filed
        ("某股票2022年报的净利润", "companies_balance_sheet_statements", (True, True, True)),
        ("此刻股价多少？", "companies_balance_sheet_statements", (False, True, True)),
        ("今天的年报说了什么？", "companies_balance_sheet_statements", (None, True, True)),
        # a wallet is made for who asks for one
        ("What is bitcoin worth?", "generate_wallet", (None, False, True)),
        ("Create a bitcoin wallet for me", "generate_wallet", (None, True, True)),
        # monthly data for a question about the present: open
        ("How high is policy uncertainty now?", "article_epu_index", (None, True, True)),
        ("Hello?", "article_epu_index", (None, True, None)),
    ],
)
async def test_tags_are_held_against_the_words_of_the_question(
    catalog: Catalog, question: str, tool: str, verdict: tuple[bool | None, ...]
) -> None:
    judgement = await RulesJudge(catalog).judge(episode(tool, question=question))
    assert judgement.tools[1:] == [ToolVerdict(tool, *verdict)], "after that on the first round"


async def test_called_tools_are_judged_that_have_tags(catalog: Catalog) -> None:
    judge = RulesJudge(catalog)
    seen = await judge.judge(episode("article_epu_index", "no_such_tool", "article_epu_index"))
    assert [tool.tool for tool in seen.tools] == ["get_coin", "article_epu_index"]
    assert (await judge.judge(episode())).tools == []


def test_labelled_tools_of_our_own_suite_suit_their_questions(catalog: Catalog) -> None:
    judged = Counter[bool]()
    for task in load_suite("starter").tasks:
        wanted = needs_of(task.question).domains
        for call in task.tools:
            tool = catalog.get(call.name)
            assert tool is not None
            if wanted:
                judged[not wanted.isdisjoint(tool.regulatory_domains)] += 1
    assert judged.total() > 90
    assert judged[False] / judged.total() < 0.06


async def test_rules_judge_no_texts_and_nothing_without_gold(catalog: Catalog) -> None:
    judge = RulesJudge(catalog)
    for gold, kind in (("", "none"), ("nan", "free_text"), ('{"a": 1}', "criterium")):
        found = await judge.judge(episode(gold=gold, answer=gold))
        assert (found.kind, found.scores, found.invalid) == (kind, [], 0)


@pytest.mark.parametrize(
    ("text", "kind", "score"),
    [
        ('{"score": 0.5}', "free_text", 0.5),
        ('{"score": 0.5}', "numeric", 1),
        ('{"score": 0.4}', "choice", 0),
        ('{"score": 0.7}', "free_text", None),
        ('{"score": "1.0"}', "criterium", 1),
        ('```json\n{"score": 1}\n```', "free_text", 1),
        ('Sure: {"score": 0} as it is wrong.', "free_text", 0),
        ('<think>maybe {"score": 1}?</think>{"score": 0}', "free_text", 0),
        ('{"score": 1} {"score": 1}', "free_text", 1),
        ('{"score": 1} no, {"score": 0}', "free_text", None),
        ('{"score": true}', "free_text", None),
        ('{"score": 2}', "numeric", None),
        ('{"score": -1}', "numeric", None),
        ('{"score": null}', "free_text", None),
        ('{"score": NaN}', "numeric", None),
        ('{"label": "correct"}', "free_text", None),
        ('[{"score": 1}', "free_text", 1),
        ('{"score": 1', "free_text", None),
        ("1", "free_text", None),
        ("", "free_text", None),
        ("{" * 100_000, "free_text", None),
    ],
)
def test_only_a_score_is_a_score(text: str, kind: Any, score: float | None) -> None:
    with at_little_cost(0.1):
        found, is_rounded = read_score(text, kind)
        assert found == score
        assert is_rounded == (kind in ("numeric", "choice") and found is not None)


def test_verdicts_are_booleans_on_tools_that_were_asked_about() -> None:
    rows = [
        {"name": "a", "timeliness": True, "intent": "yes", "domain": False},
        {"name": "other", "timeliness": True, "intent": True, "domain": True},
        {"name": "twice", "timeliness": True},
        {"name": "twice", "timeliness": False},
        {"name": "empty"},
        "nonsense",
    ]
    text = f"Here: {json.dumps({'tools': rows})}"
    found = read_verdicts(text, ["twice", "empty", "a", "missing"])
    assert found == [ToolVerdict("a", timeliness=True, intent=None, domain=False)]
    assert read_verdicts('{"tools": {"a": true}}', ["a"]) == []
    assert read_verdicts("no", ["a"]) == []


@given(st.text(max_size=100) | st.from_regex(r'[{}"score:1 ]{,40}'))
def test_no_reply_breaks_its_reader(text: str) -> None:
    assert read_score(text, "free_text")[0] in (None, 0, 0.5, 1)
    assert all(tool.tool == "a" for tool in read_verdicts(text, ["a"]))


def scoring(*replies: str | int) -> Aside:
    """Replies to the requests for a score, in order."""
    left = list(replies)

    async def reply(_: dict[str, Any]) -> dict[str, Any] | int:
        said = left.pop(0)
        return said if isinstance(said, int) else says(said)

    return reply


async def judged(played: PlayedModel, catalog: Catalog, record: EpisodeRecord) -> Any:
    async with opened(played, retries=0) as model:
        return await LlmJudge(JudgeParts(catalog, model, 3)).judge(record)


async def test_a_model_is_asked_as_often_as_told_and_once_about_tools(catalog: Catalog) -> None:
    record = episode("article_epu_index", "no_such_tool", question="Q?", gold="yes", answer="yes!")
    verdict = {"name": "article_epu_index", "timeliness": False, "intent": True, "domain": True}
    async with playing() as played:
        played.aside = {
            "judge-answer": scoring('{"score": 1}', '{"score": 0.5}', '{"score": 0}'),
            "judge-tools": scoring(json.dumps({"tools": [verdict]})),
        }
        judgement = await judged(played, catalog, record)
    assert judgement.judge == "llm:played"
    assert (judgement.kind, judgement.invalid) == ("free_text", 0)
    assert sorted(judgement.scores) == [0, 0.5, 1]
    assert judgement.tools == [ToolVerdict("article_epu_index", False, True, True)]
    spent = [(one.purpose, one.input_tokens, one.output_tokens) for one in judgement.model_calls]
    assert spent == [("judge", INPUT, OUTPUT)] * 4
    told = [[m["content"] for m in body["messages"]] for body in played.asides]
    answers = [json.loads(user) for system, user in told if "judge-answer" in system]
    assert answers == [{"question": "Q?", "gold": "yes", "answer": "yes!", "kind": "free_text"}] * 3
    (tools,) = [json.loads(user) for system, user in told if "judge-tools" in system]
    assert tools["question"] == "Q?"
    _, tool = tools["tools"]
    assert tool["regulatory_domains"] == ["macro", "economic_policy"]
    assert set(tool) == {
        *("name", "description", "timeliness", "intent_type", "regulatory_domains")
    }


async def test_by_the_authors_protocol_each_tool_and_dimension_is_decided_alone(
    catalog: Catalog,
) -> None:
    record = episode("article_epu_index", question="Q?", gold="yes", answer="yes!")
    answers = {"get_coin": ("yes", "no", "?"), "article_epu_index": ("YES", "yes", "maybe")}
    tags = ("timeliness", "intent_type", "regulatory_domains")

    async def match(body: dict[str, Any]) -> dict[str, Any]:
        asked = json.loads(body["messages"][1]["content"])["tool"]
        (place,) = (place for place, tag in enumerate(tags) if tag in asked)
        return says(json.dumps({"match": answers[asked["name"]][place], "reason": "so"}))

    async with playing() as played:
        played.aside = {
            "judge-answer": scoring('{"score": 0.7}', '{"score": 3}', '{"score": "much"}'),
            "judge-match": match,
        }
        async with opened(played, retries=0) as model:
            judge = LlmJudge(JudgeParts(catalog, model, 3, "authors"))
            judgement = await judge.judge(record)
    assert judgement.judge == "llm-authors:played"
    assert sorted(judgement.scores) == [0.7, 1.0], "as given, clamped"
    assert judgement.invalid == 1
    assert judgement.tools == [
        ToolVerdict("get_coin", True, False, None),
        ToolVerdict("article_epu_index", True, True, None),
    ]
    assert len(judgement.model_calls) == 3 + 2 * 3


async def test_invalid_replies_and_failures_are_counted_and_never_raised(catalog: Catalog) -> None:
    record = episode("article_epu_index", gold="3.5", answer="3.5")
    async with playing() as played:
        played.aside = {
            "judge-answer": scoring('{"score": 0.5}', "no idea", 500),
            "judge-tools": scoring("<html>"),
        }
        judgement = await judged(played, catalog, record)
        assert (judgement.scores, judgement.invalid, judgement.tools) == ([1], 2, [])
        played.aside = {"judge-answer": scoring(400, 500, 500), "judge-tools": scoring(503)}
        judgement = await judged(played, catalog, record)
        assert (judgement.scores, judgement.invalid, judgement.tools) == ([], 3, [])
        assert [one.attempts for one in judgement.model_calls] == [1] * 4
        assert all("answered" in (one.error or "") for one in judgement.model_calls)


async def test_nothing_is_asked_where_nothing_can_be_judged(catalog: Catalog) -> None:
    async with playing() as played:
        unknown = episode("no_such_tool")
        del unknown.tool_calls[0]
        for record in (episode(), unknown):
            judgement = await judged(played, catalog, record)
            assert (judgement.kind, judgement.scores, judgement.invalid) == ("none", [], 0)
            assert judgement.tools == []
        assert played.asides == []


async def test_a_server_that_is_gone_is_invalid_too(catalog: Catalog) -> None:
    async with playing() as played:
        pass
    judgement = await judged(played, catalog, episode(gold="B", answer="B"))
    assert (judgement.scores, judgement.invalid) == ([], 3)


async def test_half_a_character_in_an_answer_is_sent_as_what_it_can_be(catalog: Catalog) -> None:
    async with playing() as played:
        played.aside = {"judge-answer": scoring(*['{"score": 0}'] * 3)}
        record = replace(episode(gold="B"), execution_result="B\ud83d")
        judgement = await judged(played, catalog, record)
    assert judgement.scores == [0, 0, 0]
    assert json.loads(played.asides[0]["messages"][1]["content"])["answer"] == "B?"
