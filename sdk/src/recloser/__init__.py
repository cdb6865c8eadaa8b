"""Recloser, the agent's side: circuit breakers for the tools that LLM agents call."""

__version__ = "0.1.0"
