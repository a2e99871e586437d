"""The list of the episodes of a run, and one episode, as their pages show them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from bench.record import DRIVER, EpisodeRecord, Judgement, ModelCallRecord, ToolCallRecord
from bench.report.trajectories import readable, transcript
from bench.suites.suite import measure
from bench.view.listing import cut
from bench.view.opened import MARKS, MOST_LISTED, Entry, Mark, Opened, marks_of
from bench.view.runs_page import Page
from manifests.common.duration import duration

MOST_CALLS = 1_000
"""The most calls, or requests to models, on the page of an episode."""

TRANSCRIPT_CHARS = 500_000
"""How much of its transcript is on that page."""

LONG_CHARS = 20_000
"""The longest question, answer or error on the page of an episode."""


def episodes_content(name: str, opened: Opened, given: Mapping[str, str]) -> dict[str, Any]:
    """What the page of a run shows of its episodes."""
    show, q = _asked(given)
    chosen = [*opened.chosen(show, q)]
    page = Page.of(given.get("page", ""), len(chosen))
    return {
        "name": name,
        "q": q,
        "show": show,
        "marks": [(key, text) for key, (text, _) in MARKS.items()],
        "found": _found(opened, len(chosen)),
        "rows": [_row(name, entry, show, q) for entry in chosen[page.part]],
        "page": page,
        "link": lambda number: _link("/run", name=name, show=show, q=q, page=number) + "#episodes",
    }


def _asked(given: Mapping[str, str]) -> tuple[str, str]:
    """By which mark and which text episodes are chosen."""
    show = given.get("show", "")
    return show if show in MARKS else "all", given.get("q", "")


def _link(path: str, **given: object) -> str:
    left_out = ("", "all")
    return f"{path}?" + urlencode({name: v for name, v in given.items() if v not in left_out})


def _found(opened: Opened, chosen: int) -> str:
    there, played = len(opened.entries), opened.played
    if not there:
        return "No episode is on record."
    said = f"{chosen:,} of {there:,} episodes, in the order in which they ended."
    return said if played == there else f"{said} Only the first {MOST_LISTED:,} are listed."


def _row(run: str, entry: Entry, show: str, q: str) -> dict[str, Any]:
    return {
        "link": _link("/episode", run=run, episode=entry.episode, show=show, q=q),
        "marks": [*_marks(entry.marks, entry.ending)],
        "question": entry.question,
        "episode": entry.episode,
        "category": entry.category,
    }


def _marks(marks: Mark, ending: str) -> Iterator[tuple[str, str]]:
    """What is said of an episode, and how each is shown."""
    if Mark.PASSED not in marks:
        yield "not passed", "bad"
    elif Mark.WRONG not in marks:
        yield "passed", "good"
    if Mark.WRONG in marks:
        yield "answered wrongly", "bad"
    if Mark.FAILED_CALL in marks:
        yield "a call failed", "busy"
    if Mark.ERROR in marks:
        yield f"ended: {ending}", "bad"


def episode_content(
    name: str, opened: Opened, entry: Entry, given: Mapping[str, str]
) -> dict[str, Any]:
    """What the page of one episode shows. Raises `RunDirectoryError` and `SuiteError`."""
    record = opened.run.episode_at(entry.offset)
    about, (show, q) = opened.run.about, _asked(given)
    measured = measure(opened.suite, record)
    titles = {metric.name: metric for metric in opened.suite.metrics}
    figures = [
        (titles[key].title, f"{float(figure):.4g}")
        for key, figure in measured.figures.items()
        if figure is not None and key in titles
    ]
    # A run that offers no tools has the labelled ones in their place.
    is_offered = record.candidate_tools != record.labelled_tools
    offered = record.candidate_tools if is_offered else []
    before, after = _beside(opened, entry, show, q)
    beside = {"show": show, "q": q, "run": name}
    rounds = defaultdict[int, list[dict[str, Any]]](list)
    for call in record.tool_calls[:MOST_CALLS]:
        rounds[call.step].append(_call(call))
    asked = [*record.model_calls, *(record.judgement.model_calls if record.judgement else ())]
    return {
        "title": f"{cut(record.episode)} · {cut(about.suite) or 'a run'} by {cut(about.player)}",
        "name": name,
        "run_link": _link("/run", name=name, show=show, q=q) + "#episodes",
        "before": before and _link("/episode", episode=before.episode, **beside),
        "after": after and _link("/episode", episode=after.episode, **beside),
        "marks": [*_marks(marks_of(opened.suite, record, measured), record.ending)],
        "facts": [(term, cut(text)) for term, text in _facts(record, figures) if text],
        "texts": [(term, readable(text, LONG_CHARS)) for term, text in _texts(record) if text],
        "judgement": [*islice(_judgement(record.judgement), MOST_CALLS)],
        "labelled": [*map(cut, record.labelled_tools[:MOST_CALLS])],
        "offered": [*map(cut, offered[:MOST_CALLS])],
        "called": {cut(call.tool_name) for call in record.tool_calls},
        "rounds": [
            ("By the driver" if step == DRIVER else f"Round {step}", made)
            for step, made in rounds.items()
        ],
        "calls_left": max(len(record.tool_calls) - MOST_CALLS, 0),
        "responses": [readable(text, LONG_CHARS) for text in record.response[:MOST_CALLS]],
        "requests": [_request(one) for one in asked[:MOST_CALLS]],
        "transcript": transcript(
            opened.transcripts.of(record), opened.transcripts.left_out(record), TRANSCRIPT_CHARS
        ),
    }


def _beside(opened: Opened, entry: Entry, show: str, q: str) -> tuple[Entry | None, Entry | None]:
    """The chosen episodes before and after this one."""
    before = after = None
    for other in opened.chosen(show, q):
        if other.offset < entry.offset:
            before = other
        elif other.offset > entry.offset:
            after = other
            break
    return before, after


def _facts(record: EpisodeRecord, figures: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    yield "Task", record.id
    yield "Repeat", str(record.repeat)
    yield "Category", record.category
    yield "Difficulty", record.difficulty
    yield "Source", record.source_dataset
    yield "Ending", record.ending
    yield "Took", duration(record.elapsed_ms / 1e3)
    yield "Calls", f"{len(record.agent_calls):,}"
    yield "Tokens", f"{record.tokens:,}" if record.model_calls else ""
    yield from figures


def _texts(record: EpisodeRecord) -> Iterator[tuple[str, str]]:
    yield "Question", record.question
    yield "Answer", record.execution_result
    yield "Gold answer", record.ground_truth
    yield "Error", record.error or ""


def _judgement(judgement: Judgement | None) -> Iterator[tuple[str, str]]:
    if judgement is None:
        return
    yield "Judge", cut(judgement.judge)
    yield "Kind of answer", cut(judgement.kind)
    yield "Scores", ", ".join(f"{score:g}" for score in judgement.scores) or "none"
    for metric, scores in judgement.by_metric.items():
        yield cut(metric), ", ".join(f"{score:g}" for score in scores)
    if judgement.invalid:
        yield "Invalid answers", f"{judgement.invalid:,}"
    if judgement.extracted:
        yield "Read as the answer", readable(judgement.extracted)
    for verdict in judgement.tools:
        marks = {name: getattr(verdict, name) for name in ("timeliness", "intent", "domain")}
        said = [
            f"{name} {'matches' if mark else 'does not match'}"
            for name, mark in marks.items()
            if mark is not None
        ]
        yield cut(verdict.tool), ", ".join(said) or "no verdict"
    for asked in judgement.model_calls:
        if asked.reply:
            yield "The judge said", readable(asked.reply)
    if error := getattr(judgement, "error", ""):
        yield "The judge failed", readable(error)


def _call(call: ToolCallRecord) -> dict[str, Any]:
    parts = [("arguments", call.parameters), ("output" if call.ok else "error", call.output)]
    if call.observed is not None:
        parts.append(("what the agent read of it", call.observed))
    outcome = call.source or "answered"
    failure = f"{call.code or 'failed'} · {call.fault or 'unknown'}"
    return {
        "tool": cut(call.tool_name),
        "is_ok": call.ok,
        "outcome": cut(outcome if call.ok else failure),
        "took": duration(call.elapsed_ms / 1e3),
        "parts": [(name, readable(part)) for name, part in parts],
    }


def _request(asked: ModelCallRecord) -> tuple[str, ...]:
    """A row of the table of requests to models."""
    counts = (asked.input_tokens, asked.cached_tokens, asked.output_tokens)
    end = readable(asked.error or asked.finish or "")
    return (
        *(cut(asked.purpose), cut(asked.model), "" if not asked.step else str(asked.step)),
        *(f"{count:,}" for count in counts),
        *(duration(asked.elapsed_ms / 1e3), end),
    )
