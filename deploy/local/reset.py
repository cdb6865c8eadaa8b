"""`make reset`: remove the data folder of this installation, after asking."""

import shutil
import sys
from pathlib import Path

from deploy.local.lock import Lock
from deploy.local.places import data_folder
from deploy.local.problem import Problem

LOCKS = ("supervisor.lock", "servers.lock")
# Named one by one: RECLOSER_DATA_DIR may point to a folder that holds other things too.
MADE_BY_US = (
    *("postgres", "postgres.new", "valkey", "log", "static"),
    *("secrets.env", "agent-key", "processes.json", "servers.log"),
)


def main(arguments: list[str]) -> int:
    """Ask (unless `--yes`), then remove everything; refuses while something runs there."""
    try:
        reset(asked="--yes" not in arguments)
    except Problem as problem:
        print(f"recloser: {problem}", file=sys.stderr)
        return 1
    return 0


def reset(*, asked: bool) -> None:
    """Remove what `make up` made, and nothing else that may lie in that folder."""
    data = data_folder()
    if not data.exists():
        print(f"nothing to remove: there is no {data}")
        return
    locks = [Lock(data / name) for name in LOCKS]
    if not all(lock.take() for lock in locks):
        raise Problem(f"something runs on {data}: stop it first (Ctrl-C, or `python -m deploy.local.servers stop`)")
    if asked and not _agreed(f"Remove all data in {data}, users, keys and secrets included? Type yes: "):
        raise Problem("nothing was removed: type yes, or run `make reset YES=1`")
    for name in MADE_BY_US:
        _remove(data / name)
    print(f"removed the data in {data}")


def _agreed(question: str) -> bool:
    try:
        return input(question).strip().lower() == "yes"
    except EOFError:
        return False


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
