"""Batches of agents, taken exactly once: all of a batch or nothing, and what was acknowledged is committed."""

from controlplane.services.ingest.caps import Capped
from controlplane.services.ingest.intake import Foreign, Intake, Taken
from controlplane.services.ingest.names import Caller
from controlplane.services.ingest.wire import Batch

__all__ = ["Batch", "Caller", "Capped", "Foreign", "Intake", "Taken"]
