"""Training data from runs, as conversations in the JSON Lines that TRL reads.

`sft` writes an episode a line: `messages`, `tools`. `dpo` writes a pair of episodes of one task a
line: `prompt`, `chosen`, `rejected`, `tools`. `--out` is a folder that gets `train.jsonl` and
`test.jsonl`; a file without lines is not written, since `datasets` can't read one. A further field
of a line would break readers that declare their fields, so what was simulated is said in a
`README.md` beside them, the dataset card of `datasets`.

Questions that differ only in case, width of letters and spaces are one question, and episodes with
one question are those of one task. All that share a question or an id are on the same side of the
split. The side is a hash of the question, so it is the same in every export with the same seed.
Nothing depends on the order of runs and lines.

The runs are read twice. The first pass keeps an `Entry` for each episode that may be used. The
second one reads again what was chosen.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO
from unicodedata import normalize

import orjson

from bench.exports.choosing import REASONS, Entry, Selection, chosen_of, reasons
from bench.exports.messages import Conversations, is_recorded
from bench.exports.target import begins, new_folder
from bench.record import Ending, EpisodeRecord
from bench.runs.about import simulated
from bench.runs.reader import ExportError, Run
from bench.suites.suite import Suite
from bench.suites.suite import measure as measure_episode
from manifests import Catalog

CARD = "README.md"
_TITLE = "# Simulated training data\n\n"


@dataclass(frozen=True, slots=True)
class Written:
    """What was read, and how many lines each file got. `left_out` is by the keys of `REASONS`."""

    episodes: int
    lines: Mapping[str, int]
    left_out: Mapping[str, int]


def write(
    runs: Sequence[Run],
    out: Path,
    suite: type[Suite],
    selection: Selection,
    catalog: Catalog,
    *,
    force: bool = False,
) -> Written:
    """Write what is chosen of `runs` to files of the folder `out`.

    Raises `ExportError`, also where nothing is chosen, `RunDirectoryError`, `SuiteError` and
    `OSError`.
    """
    told = [Conversations(run, catalog) for run in runs]
    left_out: Counter[str] = Counter()
    tasks, sides = defaultdict[str, list[Entry]](list), _Sides(selection)
    episodes = 0
    for number, run in enumerate(runs):
        for record, found in run.episodes():
            episodes += 1
            question = as_one(record.question)
            sides.add(question, record.id)
            entry = _entry(record, (number, found.offset), told[number], suite, selection)
            if isinstance(entry, Entry):
                tasks[question].append(entry)
            else:
                left_out[entry] += 1
    side_of, lines = sides.found(), Counter({"train": 0, "test": 0})
    with new_folder(out, _is_exported, force=force) as folder, ExitStack() as opened:
        files: dict[str, BinaryIO] = {}
        for question in sorted(tasks):
            side = side_of[question]
            for chosen in chosen_of(tasks[question], selection, left_out):
                if side not in files:
                    files[side] = opened.enter_context((folder / f"{side}.jsonl").open("xb"))
                line = _line([(told[e.run], runs[e.run].episode_at(e.place)) for e in chosen])
                files[side].write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
                lines[side] += 1
        if not files:
            text = f"no line for {out} of {episodes} episodes"
            raise ExportError(f"{text}: {reasons(+left_out) or 'the runs are empty'}")
        if card := _card(runs):
            (folder / CARD).write_text(card)
    return Written(episodes, lines, {key: left_out[key] for key in REASONS if left_out[key]})


def _card(runs: Sequence[Run]) -> str:
    """What was simulated in the runs, as a page; empty if nothing was."""
    found = Counter(said for run in runs for said in simulated(run.about))
    told = (f"- in {count} of {len(runs)} runs: {said}\n" for said, count in sorted(found.items()))
    return _TITLE + "".join(told) if found else ""


def _is_exported(file: Path) -> bool:
    if file.name == CARD:
        return begins(file, _TITLE.encode())
    return file.name in ("train.jsonl", "test.jsonl")


def as_one(question: str) -> str:
    """The same text for questions that count as one."""
    return " ".join(normalize("NFKC", question).casefold().split())


def _entry(
    record: EpisodeRecord,
    place: tuple[int, int],
    told: Conversations,
    suite: type[Suite],
    selection: Selection,
) -> Entry | str:
    """The entry of an episode, or the reason why it is not used."""
    measured = measure_episode(suite, record)
    score = selection.score_of(measured.figures)
    if measured.infrastructure or record.ending == Ending.MODEL_ERROR:
        return "infrastructure"
    is_answer = record.ending == Ending.ANSWER
    if not (is_answer or record.ending == Ending.REFUSAL) or not record.execution_result.strip():
        return "no_answer"
    if score is None:
        return "no_score"
    if not is_recorded(record):
        return "not_recorded"
    if (tools := told.tools(record.candidate_tools)) is None:
        return "not_in_catalog"
    offered = {call.tool_name for call in record.agent_calls} <= {*record.candidate_tools}
    if selection.form == "sft" and not (is_answer and offered):
        return "not_offered" if is_answer else "refusal"
    return Entry(
        *place,
        score,
        len(record.agent_calls),
        _hash(told.completion(record)),
        _hash([told.prompt(record), tools]),
        is_answer and offered,
    )


def _hash(value: object) -> bytes:
    return blake2b(orjson.dumps(value), digest_size=16).digest()


def _line(chosen: Sequence[tuple[Conversations, EpisodeRecord]]) -> dict[str, Any]:
    """A line with one episode, or with the better and the worse one of a pair. The prompt of a pair
    is that of the better one; its tools are those that either was offered.
    """
    told, record = chosen[0]
    offered = dict.fromkeys(name for _, each in chosen for name in each.candidate_tools)
    prompt, tools = told.prompt(record), told.tools(offered)
    texts = [each_told.completion(each) for each_told, each in chosen]
    if len(texts) == 1:
        return {"messages": [*prompt, *texts[0]], "tools": tools}
    return {"prompt": prompt, "chosen": texts[0], "rejected": texts[1], "tools": tools}


class _Sides:
    """Sets of questions that share ids, and the side of each."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._above: dict[tuple[bool, str], tuple[bool, str]] = {}

    def add(self, question: str, task: str) -> None:
        one, other = self._top((True, question)), self._top((False, task))
        if one != other:
            self._above[other] = one

    def found(self) -> dict[str, str]:
        """The side of each question, by the first question of its set."""
        sets = defaultdict[tuple[bool, str], list[str]](list)
        for key in self._above:
            if key[0]:
                sets[self._top(key)].append(key[1])
        return {q: side for same in sets.values() for side in [self._of(min(same))] for q in same}

    def _of(self, question: str) -> str:
        text = f"{self._selection.seed}\n{question}"
        place = int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) / 2**64
        return "test" if place < self._selection.test_share else "train"

    def _top(self, key: tuple[bool, str]) -> tuple[bool, str]:
        above = self._above.setdefault(key, key)
        while above != key:
            self._above[key] = above = self._above[above]  # halves the way for the next time
            key, above = above, self._above[above]
        return key
