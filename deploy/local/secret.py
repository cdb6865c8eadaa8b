"""The installation's own secrets: made once, kept in the data folder, handed on by environment only."""

import base64
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from deploy.local.problem import Problem


def _fernet_key() -> str:
    """32 random bytes in the form that cryptography's Fernet takes."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


MADE: dict[str, Callable[[], str]] = {
    "RECLOSER_SECRET_KEY": lambda: secrets.token_urlsafe(50),
    "RECLOSER_FIELD_KEYS": _fernet_key,
}


def missing(data: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The secrets that the environment does not give (as NAME or NAME_FILE), from the data folder or new."""
    wanted = [name for name in MADE if not environment.get(name) and not environment.get(f"{name}_FILE")]
    path = data / "secrets.env"
    known = _read(path)
    made = {name: MADE[name]() for name in wanted if name not in known}
    if made:
        write_private(path, "".join(f"{name}={value}\n" for name, value in (known | made).items()))
    return {name: (known | made)[name] for name in wanted}


def write_private(path: Path, text: str) -> None:
    """Replace a file whole; only its owner can read it, also while it is being written."""
    staging = path.with_name(f".{path.name}.{os.getpid()}")
    staging.unlink(missing_ok=True)
    descriptor = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    staging.rename(path)


def _read(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Problem(f"cannot read {path} ({error.strerror}): make it yours, or set RECLOSER_DATA_DIR") from None
    return {name: value for name, _, value in (line.partition("=") for line in lines) if value}
