"""The shared circuits: considered, probed, swept, and held by hand. The core decides; here it is written down."""

from controlplane.services.judging import Considered, consider, hear_wait, recheck_lately_failing, settle_due
from controlplane.services.overrides import (
    acknowledge,
    force_close,
    hand_back,
    hold_closed,
    hold_open,
    note,
    probe_now,
    release,
)
from controlplane.services.rounds import (
    Answered,
    claim_rounds,
    finish_round,
    finish_rounds,
    shift_deadlines,
    sweep_due,
)
from controlplane.services.transitions import core_of

__all__ = [
    "Answered",
    "Considered",
    "acknowledge",
    "claim_rounds",
    "consider",
    "core_of",
    "finish_round",
    "finish_rounds",
    "force_close",
    "hand_back",
    "hear_wait",
    "hold_closed",
    "hold_open",
    "note",
    "probe_now",
    "recheck_lately_failing",
    "release",
    "settle_due",
    "shift_deadlines",
    "sweep_due",
]
