"""What `make setup` does: a `.venv` with exactly what the locks say. Standard library only, run by any Python.

Old Pythons must still be able to read this file, to say in one line what is missing.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
VENV = PROJECT / ".venv"
STAMP = VENV / "recloser-setup.json"
OLDEST, NEWEST = (3, 11), (3, 13)
TOOLS, RUN, DEVELOP, EMBEDDED = (
    PROJECT / name
    for name in (
        "requirements-setup.lock",
        "requirements.lock",
        "requirements-dev.lock",
        "requirements-embedded.lock",
    )
)


class Problem(Exception):
    """Something the user can mend; the text is one line that says how."""


def main(arguments: list[str]) -> int:
    """Install what `make up` needs, with `--dev` what the tests need too; nothing when that is done."""
    try:
        use_fitting_python(arguments)
        locks = wanted_locks("--dev" in arguments)
        if not is_done(locks):
            install(locks)
    except Problem as problem:
        print(f"recloser: {problem}", file=sys.stderr)
        return 1
    except PermissionError as error:
        print(f"recloser: cannot write to {error.filename}: use a clone in a folder that you own", file=sys.stderr)
        return 1
    return 0


def use_fitting_python(arguments: list[str]) -> None:
    """Go on under a newer Python when this one is too old (or too new for the locks)."""
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found:
            os.execv(found, [found, __file__, *arguments])  # noqa: S606
    raise Problem(
        f"this is Python {platform.python_version()}: install Python 3.11, 3.12 or 3.13,"
        " or name one with `make PYTHON=/path/to/python3 ...`"
    )


def wanted_locks(develop: bool) -> list[Path]:
    """The locks to install; the development lock holds all of the other two, the embedded servers apart."""
    locks = [TOOLS, DEVELOP if develop else RUN]
    if given("DATABASE_URL") and given("REDIS_URL"):
        return locks
    if sys.platform == "win32" or (sys.platform == "linux" and not platform.libc_ver()[0]):
        raise Problem(
            "there are no embedded servers for this system: set DATABASE_URL and REDIS_URL to servers of yours"
        )
    return [*locks, EMBEDDED]


def given(name: str) -> bool:
    """True when the environment names this server, itself or in a file."""
    return bool(os.environ.get(name) or os.environ.get(f"{name}_FILE"))


def is_done(locks: list[Path]) -> bool:
    """True when the stamp says that at least these locks, as they are now, are installed here."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return False
    wanted = {digest(lock) for lock in locks}
    if digest(DEVELOP) in stamp["locks"]:
        wanted.discard(digest(RUN))  # a development setup serves for running too
    return wanted <= set(stamp["locks"]) and stamp["place"] == place() and (VENV / "bin" / "recloser").exists()


def install(locks: list[Path]) -> None:
    """Make the environment whole; the stamp is written last, so a setup that was cut short begins again."""
    leave_linked()
    STAMP.unlink(missing_ok=True)
    prepare_venv()
    print("recloser: installing into .venv (half a minute the first time)", flush=True)
    python = VENV / "bin" / "python"
    if not (VENV / "bin" / "uv").exists():
        run("install uv", python, "-m", "pip", "install", "-q", "--require-hashes", "--no-deps", "-r", TOOLS)
    uv = (VENV / "bin" / "uv", "pip")
    where = ("--python", python, "--quiet")
    run("install the packages", *uv, "sync", *where, "--no-build", "--require-hashes", *locks)
    run("install the SDK", *uv, "install", *where, "--no-deps", "--no-build-isolation", "-e", PROJECT / "sdk")
    STAMP.write_text(json.dumps({"place": place(), "locks": [digest(lock) for lock in locks]}))


def leave_linked() -> None:
    """Where `.venv` links to another clone's environment, that stays as it is: this clone gets its own."""
    if VENV.is_symlink():
        VENV.unlink()


def prepare_venv() -> None:
    """Make `.venv`, or make it anew when it was made elsewhere or its Python is gone."""
    if (VENV / "bin" / "python").exists() and not moved():
        return
    if not all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise Problem(f"this Python cannot make environments: install python3-venv (apt install python{version}-venv)")
    if not os.access(PROJECT, os.W_OK):
        raise Problem(f"cannot write to {PROJECT}: use a clone in a folder that you own")
    run("make .venv", sys.executable, "-m", "venv", "--clear", VENV)


def moved() -> bool:
    """True when the environment's scripts name another folder: it was made before the project was moved."""
    script = VENV / "bin" / "pip"
    return not script.exists() or str(VENV) not in script.read_text(errors="replace")


def place() -> str:
    """What an environment depends on besides the locks."""
    return f"{PROJECT} {digest(PROJECT / 'sdk' / 'pyproject.toml')}"


def digest(path: Path) -> str:
    """SHA-256 of a file, hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(purpose: str, *command: str | Path) -> None:
    """Run one step; its own words are shown only when it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=PROJECT,
    )
    if done.returncode:
        sys.stderr.write(done.stdout.decode(errors="replace"))
        raise Problem(f"could not {purpose} (the lines above say why): mend that and run it again")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
