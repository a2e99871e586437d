"""Answers of generated tasks: which texts state one, in whatever spelling, and which do not."""

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.suites.generated.answer import Answer
from bench.suites.generated.facts import Subject, subjects

NAMES = {
    "sh600519": ("贵州茅台", "Kweichow Moutai", "600519"),
    "sz000001": ("平安银行", "Ping An Bank", "000001"),
    "sh601318": ("中国平安", "Ping An Insurance", "601318"),
}
TWO = {key: NAMES[key] for key in ("sz000001", "sh600519")}

PRICE = Answer(kind="number", asked="number", value=12.5, tolerance=0.01)
SHARE = PRICE.model_copy(update={"unit": "%"})
POINTS = PRICE.model_copy(update={"unit": "pp"})
FALL = PRICE.model_copy(update={"value": -3.25, "unit": "%"})
PROFIT = Answer(kind="number", asked="number", value=1_234_567_890.0, tolerance=1_234.0)
COUNT = Answer(kind="number", asked="number", value=7.0)
DAY = Answer(kind="date", asked="date", value="2024-01-31")
NAME = Answer(kind="name", asked="name", value="sz000001", options=NAMES)
LIST = Answer(kind="list", asked="list", value=("sz000001", "sh600519"), options=NAMES)
RANKING = Answer(kind="ranking", asked="ranking", value=(*TWO, "sh601318"), options=NAMES)
TABLE = Answer(
    kind="table",
    asked="table",
    value={"sz000001": 1.5, "sh600519": -2.25},
    options=TWO,
    tolerance=0.01,
    unit="%",
)
YES = Answer(kind="truth", asked="truth", value=True)
NO = Answer(kind="truth", asked="truth", value=False)
UNKNOWN = Answer(kind="unknown", asked="number")

RIGHT: list[tuple[Answer, str]] = [
    (PRICE, "12.5"),
    (PRICE, "The calls gave 3 numbers: 1, 2, 12.5.\nAnswer: **12.50**"),
    (PRICE, "答案：12.50元"),
    (PRICE, "最后答案是 12.505"),
    (PRICE, "The answer is $12.50."),
    (PRICE, "Answer: \\boxed{12.5}"),
    (PRICE, "Answer: 12.5 yuan per share on 2024-01-02"),
    (PRICE, "答案：１２．５"),
    (SHARE, "Answer: 12.5 %"),
    (SHARE, "Answer: 12.5"),
    (SHARE, "12.5 percent"),
    (SHARE, "答案：百分之12.5"),
    (SHARE, "答案：1250个基点"),
    (POINTS, "Answer: 12.5 percentage points"),
    (POINTS, "答案：12.5个百分点"),
    (FALL, "Answer: -3.25%"),
    (FALL, "答案：−3.25％"),
    (PROFIT, "Answer: 1,234,567,890"),
    (PROFIT, "Answer: 1,234.56789 million yuan"),
    (PROFIT, "Answer: 1.23456789 billion"),
    (PROFIT, "Answer: 1.23456789e9"),
    (PROFIT, "答案：12.3456789亿元"),
    (PROFIT, "答案：123,456.789万"),
    (PROFIT, "答案：12亿3456.789万元"),
    (COUNT, "Answer: 7 days"),
    (COUNT, "答案：7个交易日"),
    (DAY, "Answer: 2024-01-31"),
    (DAY, "Answer: 2024/1/31"),
    (DAY, "Answer: 20240131"),
    (DAY, "Answer: Wednesday, 31 January 2024."),
    (DAY, "Answer: January 31st, 2024"),
    (DAY, "Answer: 31 Jan 2024 (2024-01-31)"),
    (DAY, "Answer: 2024-01-31T00:00:00.000"),
    (DAY, "答案：2024年1月31日"),
    (DAY, "答案：2024年01月31号"),
    (NAME, "Answer: Ping An Bank"),
    (NAME, "Answer: PING AN BANK (000001.SZ)"),
    (NAME, "答案：平安银行（000001）"),
    (NAME, "Answer: 平安银行"),
    (NAME, "答案：000001"),
    (LIST, "Answer: Kweichow Moutai and Ping An Bank"),
    (LIST, "答案：平安银行、贵州茅台"),
    (LIST, 'Answer: ["600519", "000001"]'),
    (LIST, "Answer:\n1. 000001\n2. Kweichow Moutai"),
    (RANKING, "答案：平安银行 > 贵州茅台 > 中国平安"),
    (RANKING, "Answer:\n1. Ping An Bank\n2. 600519\n3. Ping An Insurance (601318)"),
    (TABLE, "Answer: Ping An Bank: 1.5 %; Kweichow Moutai: -2.25 %"),
    (TABLE, "答案：贵州茅台（600519）：-2.25，平安银行（000001）：1.5"),
    (TABLE, "Answer:\n| name | % |\n|---|---|\n| 平安银行 | 1.50 |\n| 600519 | -2.25 |"),
    (TABLE, 'Answer: {"000001": 1.5, "600519": -2.25}'),
    (YES, "Answer: **Yes**."),
    (YES, "答案：是的，高于。"),
    (YES, "True"),
    (NO, "Answer: No, it did not."),
    (NO, "答案：否"),
    (NO, "答案：不是"),
    (NO, "答案：没有"),
    (UNKNOWN, "Answer: cannot be known"),
    (UNKNOWN, "Answer: It can't be determined."),
    (UNKNOWN, "答案：无法得知。"),
]
WRONG: list[tuple[Answer, str]] = [
    *((answer, "") for answer in (PRICE, DAY, NAME, LIST, RANKING, TABLE, YES, NO, UNKNOWN)),
    *((answer, "Answer: cannot be known") for answer in (PRICE, DAY, NAME, LIST, TABLE, YES, NO)),
    (PRICE, "Answer: 12.52"),
    (PRICE, "Answer: -12.5"),
    (PRICE, "Answer: 12.5 or 13"),
    (PRICE, "Answer: 12.5-12.6"),
    (PRICE, "答案：12.5或13"),
    (PRICE, "Answer: 12.5%"),
    (PRICE, "Answer: 12.5 million"),
    (PRICE, "12.5\nAnswer: 13"),
    (SHARE, "Answer: 0.125"),
    (SHARE, "Answer: 12.5 bp"),
    (FALL, "Answer: 3.25%"),
    (PROFIT, "答案：12.3456789万"),
    (PROFIT, "Answer: 1,234.56789"),
    (COUNT, "Answer: 7.4"),
    (COUNT, "Answer: 7 or 8 days"),
    (DAY, "Answer: 2024-01-30"),
    (DAY, "Answer: 2024-01-31 or 2024-02-01"),
    (DAY, "Answer: January 2024"),
    (DAY, "答案：1月31日"),
    (NAME, "Answer: Ping An Insurance"),
    (NAME, "Answer: Ping An Bank or Ping An Insurance"),
    (NAME, "答案：平安银行或600519"),
    (NAME, "Answer: Ping An"),
    (LIST, "答案：平安银行"),
    (LIST, "答案：平安银行、贵州茅台、中国平安"),
    (RANKING, "答案：贵州茅台、平安银行、中国平安"),
    (RANKING, "答案：平安银行、贵州茅台"),
    (TABLE, "Answer: Ping An Bank: -2.25 %; Kweichow Moutai: 1.5 %"),
    (TABLE, "Answer: Ping An Bank: 1.5 %"),
    (TABLE, "Answer: Ping An Bank: 1.5 % or 2 %; Kweichow Moutai: -2.25 %"),
    (YES, "Answer: no"),
    (YES, "答案：不是"),
    (NO, "答案：是"),
    (NO, "Answer: nothing"),
    (UNKNOWN, "Answer: 12.5"),
]


@pytest.mark.parametrize(("answer", "text"), RIGHT)
def test_a_right_answer_may_be_written_in_many_ways(answer: Answer, text: str) -> None:
    assert answer.is_stated(text)


@pytest.mark.parametrize(("answer", "text"), WRONG)
def test_a_wrong_answer_and_two_answers_are_not_accepted(answer: Answer, text: str) -> None:
    assert not answer.is_stated(text)


@pytest.mark.parametrize("text", ["Answer: yes or no", "答案：是否", "答案：是，不是"])
def test_yes_and_no_at_once_is_neither(text: str) -> None:
    assert not YES.is_stated(text)
    assert not NO.is_stated(text)


@pytest.mark.parametrize(
    "text", ["Answer: 12.5\n\nThis answer relies on the tools.", "答案：12.5\n以上答案仅供参考。"]
)
def test_the_word_answer_in_a_later_sentence_begins_no_answer(text: str) -> None:
    assert PRICE.is_stated(text)


def named(subject: Subject) -> tuple[str, ...]:
    plain = subject.names["en"].removeprefix("the ")
    return tuple(dict.fromkeys((subject.names["zh"], plain, subject.code, *subject.aliases)))


KINDS = sorted({subject.kind for subject in subjects().values()})


@st.composite
def options(draw: Any) -> dict[str, tuple[str, ...]]:
    """Some subjects of one kind; each of their texts may come first."""
    kind = draw(st.sampled_from(KINDS))
    all_of = sorted(key for key, one in subjects().items() if one.kind == kind)
    chosen = draw(st.lists(st.sampled_from(all_of), min_size=2, max_size=6, unique=True))
    return {key: tuple(draw(st.permutations(named(subjects()[key])))) for key in chosen}


@st.composite
def answers(draw: Any) -> Answer:
    kind = draw(st.sampled_from(["number", "date", "name", "list", "ranking", "table", "truth"]))
    digits = draw(st.integers(0, 4))
    reach = 10 ** (12 if kind == "number" else 8)
    numbers = st.integers(-reach, reach).map(lambda n: n / 10**digits)
    found = draw(options())
    keys = sorted(found)
    some = st.lists(st.sampled_from(keys), min_size=1, unique=True).map(tuple)
    value: Any = draw(
        {
            "number": numbers,
            "date": st.dates(date(2000, 1, 1), date(2026, 12, 31)).map(str),
            "name": st.sampled_from(keys),
            "list": some,
            "ranking": st.permutations(keys).map(tuple),
            "table": st.fixed_dictionaries(dict.fromkeys(keys, numbers)),
            "truth": st.booleans(),
        }[kind]
    )
    return Answer(
        kind=kind,
        asked=kind,
        value=value,
        unit=draw(st.sampled_from(["", "%", "pp"])),
        tolerance=10.0**-digits + (1e-6 * abs(value) if kind == "number" else 0),
        options=found if kind in ("name", "list", "ranking", "table") else {},
    )


@given(answers())
def test_an_answers_own_text_states_it_and_survives_a_file(answer: Answer) -> None:
    assert answer.is_stated(answer.text), answer.text
    assert answer.is_stated(f"12 calls, and 2 names.\nAnswer: {answer.text}.")
    again = Answer.model_validate_json(answer.model_dump_json(exclude_defaults=True))
    assert again == answer
    assert type(again.value) is type(answer.value)
    assert not answer.is_stated("Answer: cannot be known")
    assert not answer.is_stated("Answer: ")


@given(options(), st.data())
def test_one_name_states_no_other_name_of_its_kind(
    found: dict[str, tuple[str, ...]], data: st.DataObject
) -> None:
    said, other = data.draw(st.permutations(sorted(found)))[:2]
    text = data.draw(st.sampled_from(found[said]))
    for key in (said, other):
        answer = Answer(kind="name", asked="name", value=key, options=found)
        assert answer.is_stated(f"Answer: {text}") == (key == said), text


def test_steps_are_seen_in_what_tools_answered_however_they_print_them() -> None:
    answer = PRICE.model_copy(update={"steps": (12.5, 30.0, 250_000.0, "2024-01-31")})
    assert answer.steps_seen(["12.5, 30, 250000", "2024-01-31"]) == 1
    assert answer.steps_seen(['{"close": 12.50, "lots": 2500, "day": "20240131"}']) == 0.75
    assert answer.steps_seen(["112.5 12.55 1.30 25001"]) == 0
    assert answer.steps_seen([]) == 0
    assert PRICE.steps_seen(["12.5"]) is None


def test_a_step_is_not_seen_in_ten_times_its_value() -> None:
    answer = PRICE.model_copy(update={"steps": (30.0,)})
    assert answer.steps_seen(["300"]) == 0
