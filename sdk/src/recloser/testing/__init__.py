"""For the tests of agents: a control plane on a loopback port, outages by a line, tools that fail to order, moved time.

Nothing here is a stand-in for the SDK: clients are real ones that speak the real protocol over real sockets. Where
pytest is installed, the fixtures `recloser_plane`, `recloser_client` and `recloser_clock` are there without an import.
"""

from recloser.testing.checks import (
    assert_degraded,
    assert_disclosed,
    assert_healthy,
    assert_notice,
    assert_unavailable,
)
from recloser.testing.clock import Clock
from recloser.testing.documents import KEY, NOW, config_document, run_policy
from recloser.testing.plane import FAST, FakeControlPlane, Scripted, error
from recloser.testing.scripts import ScriptedTool, ToolFailure, scripted

__all__ = [
    "FAST",
    "KEY",
    "NOW",
    "Clock",
    "FakeControlPlane",
    "Scripted",
    "ScriptedTool",
    "ToolFailure",
    "assert_degraded",
    "assert_disclosed",
    "assert_healthy",
    "assert_notice",
    "assert_unavailable",
    "config_document",
    "error",
    "run_policy",
    "scripted",
]
