"""`make demo`: recorded agent runs meet a recorded outage; `make demo CHECK=1`: the same, headless, as JSON."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time

from demo.stage import USER, Stage, place, set_up
from demo.story import Story
from deploy.local.problem import Problem

CHECK_WITHIN_S = 200.0
"""With the set-up before it, under four minutes."""


def main() -> int:
    """Play; what the user can mend is one line on stderr."""
    options = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    options.add_argument(
        "--check", action="store_true", help="no browser needed: print what happened, as JSON, and end"
    )
    check = options.parse_args().check
    signal.signal(signal.SIGTERM, _interrupt)
    stage = place(check=check)
    try:
        _say(f"starting a control plane for the demo (log: {stage.log})")
        set_up(stage)
        return _check(_story(stage)) if check else _watch(_story(stage))
    except Problem as problem:
        print(f"demo: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        _say("stopping")
        stage.strike()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _story(stage: Stage) -> Story:
    import django

    django.setup()
    return Story(stage)


def _watch(story: Story) -> int:
    """Tell what happens until Ctrl-C."""
    stage = story.stage
    _say(f"open {stage.url}/ and sign in as {USER} with the password {stage.password}")
    _say("all is well for twenty seconds; then a recorded outage begins, sixty times as fast (Ctrl-C ends the demo)")
    while True:
        for line in story.news():
            _say(line)
        time.sleep(0.5)


def _check(story: Story) -> int:
    """Tell what happens until the story is told or time is up; the JSON is all that goes to stdout."""
    deadline = time.monotonic() + CHECK_WITHIN_S
    while not story.told() and time.monotonic() < deadline:
        for line in story.news():
            _say(line)
        time.sleep(0.5)
    for line in story.news():
        _say(line)
    summary = story.summary()
    print(json.dumps(summary, indent=2))
    return 1 if summary["missing"] else 0


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
