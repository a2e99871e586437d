"""Exports OpenInference spans as OTLP/JSON, in the OTLP file exporter's format: JSON Lines, each
line one `ExportTraceServiceRequest`.

An episode is a trace. Its root is an AGENT span from question to answer. The root's children are an
LLM span for each request to a model and a TOOL span for each call. Attributes are those of
OpenInference (semantic conventions 0.1.42), `error.type` is OpenTelemetry's, and those that begin
with `finport.` are ours. A judgement is an evaluation of the root. Ids are hashes: the same in
every export of a run, and different for other runs. As OTLP requires in JSON, ids are hex, 64-bit
numbers are texts and enums are numbers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.exports.target import write_lines
from bench.record import OUTPUT_CHARS, EpisodeRecord, Judgement, ModelCallRecord, ToolCallRecord
from bench.runs.about import simulated
from bench.runs.reader import Run, json_text, text_of

INTERNAL = 1
OK, ERROR = 1, 2

JSON, TEXT = "application/json", "text/plain"

Attributes = Mapping[str, str | float | None]
"""Attributes by name; those that are None are left out."""


@dataclass(frozen=True, slots=True)
class Span:
    """A span without its place in a trace: `at` is Unix time, 0 if unknown. `error` says why it
    failed.
    """

    name: str
    at: float
    elapsed_ms: float
    attributes: Attributes
    error: str | None


def write(run: Run, out: Path, *, force: bool = False) -> int:
    """Write the episodes of `run` as lines of the file `out`, and return their number.

    Raises `ExportError`, `RunDirectoryError` and `OSError`.
    """
    return write_lines(run, out, request, force=force)


def request(run: Run, episode: EpisodeRecord) -> dict[str, Any]:
    """The `ExportTraceServiceRequest` of one episode."""
    about, version = run.about, run.about.finport or "unknown"
    resource = {
        "service.name": "finbench",
        "service.version": version,
        "openinference.project.name": about.suite or "finbench",
        "finport.run": about.digest or None,
        "finport.upstream": about.upstream,
        "finport.mode": about.mode,
        "finport.snapshot": about.snapshot,
        "finport.simulated": "; ".join(simulated(about)) or None,
    }
    spans = {"scope": {"name": "finbench", "version": version}, "spans": list(_spans(run, episode))}
    return {
        "resourceSpans": [{"resource": {"attributes": _encoded(resource)}, "scopeSpans": [spans]}]
    }


def _spans(run: Run, episode: EpisodeRecord) -> Iterator[dict[str, Any]]:
    """The spans, the root first. Its time covers the others, whose times were rounded each."""
    trace_id = run.trace_id(episode)
    start, end = _times(episode.started_at, episode.elapsed_ms)
    root = _agent(episode, trace_id)
    below = [_llm(run, request) for request in episode.model_calls]
    below += [_tool(call) for call in episode.tool_calls]
    times = [_times(span.at, span.elapsed_ms, start) for span in below]
    times.insert(0, (start, max([end, *(ended for _, ended in times)])))
    for index, (span, (began, ended)) in enumerate(zip([root, *below], times, strict=True)):
        parent = {"parentSpanId": _span_id(trace_id, 0)} if index else {}
        failed = {"code": ERROR, "message": span.error}
        yield {
            "traceId": trace_id,
            "spanId": _span_id(trace_id, index),
            **parent,
            "name": span.name,
            "kind": INTERNAL,
            "startTimeUnixNano": str(began),
            "endTimeUnixNano": str(ended),
            "attributes": _encoded(span.attributes),
            "status": {"code": OK} if span.error is None else failed,
        }


def _times(at: float, elapsed_ms: float, earliest: int = 0) -> tuple[int, int]:
    """Start and end in Unix nanoseconds, from times recorded in milliseconds."""
    start = max(round(at * 1e3) * 1_000_000, earliest)
    return start, start + round(elapsed_ms * 1e6)


def _span_id(trace_id: str, index: int) -> str:
    return blake2b(f"{trace_id} {index}".encode(), digest_size=8).hexdigest()


def _agent(episode: EpisodeRecord, trace_id: str) -> Span:
    names = ("id", "repeat", "source_dataset", "category", "ending", "ground_truth")
    lists = ("labelled_tools", "candidate_tools", "response")
    attributes: dict[str, str | float | None] = {
        "openinference.span.kind": "AGENT",
        "agent.name": episode.setting,
        "session.id": f"{episode.episode}-{trace_id[:8]}",
        "input.value": episode.question,
        "input.mime_type": TEXT,
        "output.value": episode.execution_result,
        "output.mime_type": TEXT,
        "metadata": json_text({name: getattr(episode, name) for name in (*names, *lists)}),
        "error.type": None if episode.error is None else episode.ending,
        "finport.episode": episode.episode,
    }
    if episode.judgement is not None:
        attributes |= _evaluations(episode.judgement)
    name = f"invoke_agent {episode.setting}"
    return Span(name, episode.started_at, episode.elapsed_ms, attributes, episode.error)


def _llm(run: Run, call: ModelCallRecord) -> Span:
    attributes: Attributes = {
        "openinference.span.kind": "LLM",
        "llm.model_name": call.model,
        "llm.invocation_parameters": json_text(_body(run.about.content)),
        "llm.token_count.prompt": call.input_tokens,
        "llm.token_count.prompt_details.cache_read": call.cached_tokens,
        "llm.token_count.completion": call.output_tokens,
        "llm.token_count.total": call.input_tokens + call.output_tokens,
        "llm.finish_reason": call.finish,
        "finport.purpose": call.purpose,
        "finport.step": call.step,
        "finport.attempts": call.attempts,
    }
    return Span(f"chat {call.model}", call.at, call.elapsed_ms, attributes, call.error)


def _body(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of each request to the model; earlier runs have them one by one."""
    names = ("temperature", "max_tokens", "seed")
    earlier = {name: settings[name] for name in names if settings.get(name) is not None}
    return dict(settings["body"]) if "body" in settings else earlier


def _tool(call: ToolCallRecord) -> Span:
    arguments, output = json_text(call.parameters), text_of(call.output)
    whole = not isinstance(call.output, str) or len(output) < OUTPUT_CHARS
    attributes: Attributes = {
        "openinference.span.kind": "TOOL",
        "tool.name": call.tool_name,
        "tool.parameters": arguments,
        "tool.id": call.call_id or None,
        "input.value": arguments,
        "input.mime_type": JSON,
        "output.value": output,
        "output.mime_type": JSON if whole else TEXT,
        "error.type": call.code,
        "finport.fault": call.fault,
        "finport.provenance": call.source,
        "finport.step": call.step,
        "finport.observed": call.observed,
    }
    error = None if call.ok else _message(call)
    return Span(f"execute_tool {call.tool_name}", call.at, call.elapsed_ms, attributes, error)


def _message(call: ToolCallRecord) -> str:
    reported = call.output.get("error") if isinstance(call.output, dict) else call.output
    return str(reported or call.code)


def _evaluations(judgement: Judgement) -> dict[str, str | float]:
    """The mean score of each metric, and for each kind of tag whether those of all judged tools
    match.
    """
    found: list[dict[str, str | float]] = [
        {"name": name, "score": fmean(scores)} for name, scores in judgement.by_metric.items()
    ]
    if judgement.scores and not judgement.by_metric:
        found.append({"name": "SoftScore", "score": fmean(judgement.scores)})
    for name in ("timeliness", "intent", "domain"):
        verdicts = [getattr(tool, name) for tool in judgement.tools]
        if any(verdict is not None for verdict in verdicts):
            label = "mismatch" if False in verdicts else "match"
            found.append({"name": name, "label": label, "score": float(label == "match")})
    common = {
        "annotator_kind": "CODE" if judgement.judge == "rules" else "LLM",
        "metadata": json_text({n: v for n, v in judgement.fields().items() if n != "model_calls"}),
    }
    return {
        f"evaluations.{index}.evaluation.{field}": value
        for index, fields in enumerate(found)
        for field, value in (fields | common).items()
    }


def _encoded(attributes: Attributes) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": _value(value)}
        for key, value in attributes.items()
        if value is not None
    ]


def _value(value: str | float) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value}
