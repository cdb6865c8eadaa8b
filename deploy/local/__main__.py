"""The command behind `make up`: `python -m deploy.local up [--procfile FILE]`."""

import argparse
import sys
from pathlib import Path


def main() -> int:
    """Run the command; what the user can mend is one line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description="Run Recloser on this machine.")
    parser.add_argument("command", choices=["up"])
    parser.add_argument("--procfile", type=Path, help="run these processes (`name: command` lines) instead of ours")
    arguments = parser.parse_args()
    if sys.platform == "win32":
        print("recloser: Windows is not supported: run it in WSL or in a container", file=sys.stderr)
        return 1
    # Not before: these need a Unix.
    from deploy.local.problem import Problem
    from deploy.local.up import up

    try:
        up(arguments.procfile)
    except Problem as problem:
        print(f"recloser: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
