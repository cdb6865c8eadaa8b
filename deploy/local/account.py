"""As whom the embedded servers run: Postgres refuses root, so root lends them another account."""

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local.problem import Problem


@dataclass(frozen=True)
class Account:
    """A user that root starts the servers as."""

    uid: int
    gid: int

    def popen_options(self) -> dict[str, Any]:
        """Arguments of Popen that change to this user and drop every other group."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def server_account(existing: Path) -> Account | None:
    """None unless we are root; else the owner of the `existing` data folder, or nobody."""
    if os.geteuid() != 0:
        return None
    if existing.exists() and (owner := existing.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise Problem(
            "Postgres refuses to run as root and there is no user 'nobody': run as an ordinary user or set DATABASE_URL"
        ) from None
    return Account(entry.pw_uid, entry.pw_gid)


def open_to_others(path: Path) -> bool:
    """True when any user may walk down to `path` and enter or run it."""
    path = path.resolve()
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.parents) if folder.exists())
