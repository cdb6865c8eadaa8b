"""The tables, one file a noun."""

from controlplane.models.access import Agent, AgentKey, Environment, LocalOverride, Session, User, Worker
from controlplane.models.alert import AlertCause, AlertChannel, AlertDelivery
from controlplane.models.audit import AuditAnchor, AuditEntry
from controlplane.models.baseline import Baseline
from controlplane.models.circuit import ActionToken, Circuit, Outage, Transition, Trip
from controlplane.models.observation import Observation
from controlplane.models.permit import Candidate
from controlplane.models.policy import PolicyRevision
from controlplane.models.probe import AgentProber, Probe, ProbeRound, ProbeSpend, ProbeTest, ProbeVote
from controlplane.models.rollup import RollupDay, RollupHour, RollupMark, RollupMinute, RunHour
from controlplane.models.run import Run, StepLog
from controlplane.models.system import AllowedNetwork, DocumentVersion, ProcessBeat
from controlplane.models.token import PersonalToken
from controlplane.models.tool import Dependency, Tool, ToolHints
from controlplane.models.tool_change import ToolChange
from controlplane.models.vendor import VendorStatus

__all__ = [
    "ActionToken",
    "Agent",
    "AgentKey",
    "AgentProber",
    "AlertCause",
    "AlertChannel",
    "AlertDelivery",
    "AllowedNetwork",
    "AuditAnchor",
    "AuditEntry",
    "Baseline",
    "Candidate",
    "Circuit",
    "Dependency",
    "DocumentVersion",
    "Environment",
    "LocalOverride",
    "Observation",
    "Outage",
    "PersonalToken",
    "PolicyRevision",
    "Probe",
    "ProbeRound",
    "ProbeSpend",
    "ProbeTest",
    "ProbeVote",
    "ProcessBeat",
    "RollupDay",
    "RollupHour",
    "RollupMark",
    "RollupMinute",
    "Run",
    "RunHour",
    "Session",
    "StepLog",
    "Tool",
    "ToolChange",
    "ToolHints",
    "Transition",
    "Trip",
    "User",
    "VendorStatus",
    "Worker",
]
