"""One agent worker: steps through recorded runs, with Recloser or, for comparison, without.

python -m demo.agent --vendor http://127.0.0.1:9001 --share 0/3 --begin 1790000000.0 [--bare]
"""

import argparse
import contextlib
import itertools
import time
from collections.abc import Iterator
from typing import Any

from recloser import Client, Run
from recloser.given import name_of

from demo.calls import ask
from demo.cast import RecordedRun, recorded_runs, tools_array

THINK_S = 0.15
"""What a model call takes. There is no model: the decisions are recorded."""
TOKENS_FIRST, TOKENS_MORE, PRICE = 900, 250, 3e-6
"""Assumed, not measured: a growing context at three dollars per million tokens."""
SILENT_EVERY = 3
"""Every third run's text does not say what it lacked, as many models' do not."""


def main() -> None:
    """Play this worker's share of the recorded runs, over and over."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--vendor", required=True)
    options.add_argument("--share", required=True, help="I/N: every N-th run, beginning with the I-th")
    options.add_argument("--begin", type=float, required=True)
    options.add_argument("--bare", action="store_true", help="without Recloser")
    chosen = options.parse_args()
    first, of = map(int, chosen.share.split("/"))
    time.sleep(max(0.0, chosen.begin - time.time()))
    runs = enumerate(itertools.cycle(recorded_runs()[first::of]))
    with contextlib.suppress(KeyboardInterrupt):
        if chosen.bare:
            _bare(runs, chosen.vendor)
        else:
            _guarded(runs, chosen.vendor)


def _bare(runs: Iterator[tuple[int, RecordedRun]], vendor: str) -> None:
    for _, recorded in runs:
        for step in recorded.steps:
            time.sleep(THINK_S)
            with contextlib.suppress(Exception):
                ask(vendor, step)


def _guarded(runs: Iterator[tuple[int, RecordedRun]], vendor: str) -> None:
    with Client() as client:
        for number, recorded in runs:
            with client.run(task_kind="travel", step_limit=20) as run:
                _play(run, recorded, vendor)
                run.finish(_text(run, silent=number % SILENT_EVERY == SILENT_EVERY - 1))


def _play(run: Run, recorded: RecordedRun, vendor: str) -> None:
    """The loop of an agent, with a recording in the model's place."""
    for number, step in enumerate(recorded.steps):
        if not run.step():
            return
        offered = {name_of(tool) for tool in run.tools(tools_array())}
        run.notice()
        time.sleep(THINK_S)
        tokens = TOKENS_FIRST + TOKENS_MORE * number
        run.used(tokens=tokens, seconds=THINK_S, cost=tokens * PRICE)
        if step["tool"] in offered:  # a model cannot name a tool that is not in the array
            run.call(step["tool"], {"step": step}, _asking(vendor))


def _asking(vendor: str) -> Any:
    return lambda step: ask(vendor, step)


def _text(run: Run, *, silent: bool) -> str:
    """The final answer: a model that read the notice says what it could not do, another does not."""
    notice = run.notice()
    if notice is None or silent:
        return "Here is your travel plan."
    missing = ", ".join(line[2:].split(":")[0] for line in notice.splitlines() if line.startswith("- "))
    return f"Here is your travel plan. I could not use {missing}: that part is not verified."


if __name__ == "__main__":
    main()
