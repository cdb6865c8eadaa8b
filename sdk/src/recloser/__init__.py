"""Recloser, the agent's side: circuit breakers for the tools that LLM agents call."""

from recloser.client import Client
from recloser.core.budget import Spend
from recloser.core.types import Outcome
from recloser.link import Pace
from recloser.run import CallTimeout, Run, RunResult
from recloser.version import __version__

__all__ = ["CallTimeout", "Client", "Outcome", "Pace", "Run", "RunResult", "Spend", "__version__"]
