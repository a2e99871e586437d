"""The public names of `finport`, each with the module that defines it.

Add a new name to the imports (for type checkers), to `HOMES` and to `__all__`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.simulator.faults import Fault, Faults
    from adapters.simulator.server import SimulatedUpstream
    from bench.agents.agent import Agent, Episode, Round, ToolCall, Turn
    from bench.agents.declaration import AgentParts, AgentSettingsError, AgentType, NoOptions
    from bench.agents.scripted import ErrorRates, ScriptedAgent
    from bench.judges.judge import Judge, JudgeParts, JudgeType
    from bench.metrics.means import Measured
    from bench.models.client import ModelClient
    from bench.models.completion import Completion, FunctionCall, ModelError
    from bench.record import (
        Ending,
        EpisodeRecord,
        Judgement,
        ModelCallRecord,
        ToolCallRecord,
        ToolVerdict,
    )
    from bench.suites import load_suite
    from bench.suites.suite import Measure, Metric, Suite, SuiteError
    from bench.task import LabelledCall, Task
    from cache.freshness import CacheControl, CacheControlError
    from cache.snapshot import Snapshot, SnapshotError
    from gateway.call import Gateway, Observer
    from gateway.compress.answer import Compressed, compress
    from gateway.compress.budget import Budget, BudgetError
    from gateway.context import CallContext
    from gateway.errors import CallError, ErrorCode
    from gateway.grant import Grant
    from gateway.pipeline.bind import BoundCall
    from gateway.result import Result
    from gateway.settings import GatewaySettings, HostSettings
    from gateway.settings_file import SettingsError
    from gateway.tables.conversion import PartialTableWarning
    from gateway.tables.rows import Page
    from gateway.trace import CallRecord, JsonLines, Trace, TraceError
    from manifests.catalog import Catalog, CatalogError
    from manifests.manifest import Column, Manifest, Parameter

HOMES = {
    "Agent": "bench.agents.agent",
    "AgentParts": "bench.agents.declaration",
    "AgentSettingsError": "bench.agents.declaration",
    "AgentType": "bench.agents.declaration",
    "BoundCall": "gateway.pipeline.bind",
    "CacheControl": "cache.freshness",
    "CacheControlError": "cache.freshness",
    "Budget": "gateway.compress.budget",
    "BudgetError": "gateway.compress.budget",
    "CallContext": "gateway.context",
    "Compressed": "gateway.compress.answer",
    "compress": "gateway.compress.answer",
    "CallError": "gateway.errors",
    "CallRecord": "gateway.trace",
    "Catalog": "manifests.catalog",
    "CatalogError": "manifests.catalog",
    "Column": "manifests.manifest",
    "Completion": "bench.models.completion",
    "Ending": "bench.record",
    "Episode": "bench.agents.agent",
    "EpisodeRecord": "bench.record",
    "ErrorCode": "gateway.errors",
    "ErrorRates": "bench.agents.scripted",
    "Fault": "adapters.simulator.faults",
    "Faults": "adapters.simulator.faults",
    "FunctionCall": "bench.models.completion",
    "Gateway": "gateway.call",
    "GatewaySettings": "gateway.settings",
    "Grant": "gateway.grant",
    "HostSettings": "gateway.settings",
    "JsonLines": "gateway.trace",
    "Judge": "bench.judges.judge",
    "JudgeParts": "bench.judges.judge",
    "JudgeType": "bench.judges.judge",
    "Judgement": "bench.record",
    "LabelledCall": "bench.task",
    "Manifest": "manifests.manifest",
    "Measure": "bench.suites.suite",
    "Measured": "bench.metrics.means",
    "Metric": "bench.suites.suite",
    "ModelCallRecord": "bench.record",
    "ModelClient": "bench.models.client",
    "ModelError": "bench.models.completion",
    "NoOptions": "bench.agents.declaration",
    "Observer": "gateway.call",
    "Page": "gateway.tables.rows",
    "Parameter": "manifests.manifest",
    "PartialTableWarning": "gateway.tables.conversion",
    "Result": "gateway.result",
    "Round": "bench.agents.agent",
    "ScriptedAgent": "bench.agents.scripted",
    "SettingsError": "gateway.settings_file",
    "SimulatedUpstream": "adapters.simulator.server",
    "Snapshot": "cache.snapshot",
    "SnapshotError": "cache.snapshot",
    "Suite": "bench.suites.suite",
    "SuiteError": "bench.suites.suite",
    "Task": "bench.task",
    "ToolCall": "bench.agents.agent",
    "ToolCallRecord": "bench.record",
    "ToolVerdict": "bench.record",
    "Trace": "gateway.trace",
    "TraceError": "gateway.trace",
    "Turn": "bench.agents.agent",
    "load_suite": "bench.suites",
}

__all__ = [
    "Agent",
    "AgentParts",
    "AgentSettingsError",
    "AgentType",
    "BoundCall",
    "Budget",
    "BudgetError",
    "CacheControl",
    "CacheControlError",
    "CallContext",
    "CallError",
    "CallRecord",
    "Catalog",
    "CatalogError",
    "Column",
    "Completion",
    "Compressed",
    "Ending",
    "Episode",
    "EpisodeRecord",
    "ErrorCode",
    "ErrorRates",
    "Fault",
    "Faults",
    "FunctionCall",
    "Gateway",
    "GatewaySettings",
    "Grant",
    "HostSettings",
    "JsonLines",
    "Judge",
    "JudgeParts",
    "JudgeType",
    "Judgement",
    "LabelledCall",
    "Manifest",
    "Measure",
    "Measured",
    "Metric",
    "ModelCallRecord",
    "ModelClient",
    "ModelError",
    "NoOptions",
    "Observer",
    "Page",
    "Parameter",
    "PartialTableWarning",
    "Result",
    "Round",
    "ScriptedAgent",
    "SettingsError",
    "SimulatedUpstream",
    "Snapshot",
    "SnapshotError",
    "Suite",
    "SuiteError",
    "Task",
    "ToolCall",
    "ToolCallRecord",
    "ToolVerdict",
    "Trace",
    "TraceError",
    "Turn",
    "compress",
    "load_suite",
]
