"""Wait for a condition without guessing how long it takes."""

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], timeout_s: float, every_s: float = 0.02) -> bool:
    """Ask until `condition` holds; False when it did not within the time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True
