"""Where things lie: the lasting data, the sockets, the servers' programs."""

import hashlib
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from deploy.local.account import Account, open_to_others, server_account
from deploy.local.problem import Problem

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Places:
    """The folders of one set of servers."""

    data: Path  # lasts
    run: Path  # sockets: short, because a socket's path may have about 100 bytes
    account: Account | None

    @property
    def postgres(self) -> Path:
        """Postgres' data folder."""
        return self.data / "postgres"

    @property
    def valkey(self) -> Path:
        """Valkey's data folder."""
        return self.data / "valkey"

    @property
    def logs(self) -> Path:
        """What the two servers say."""
        return self.data / "log"


def data_folder() -> Path:
    """RECLOSER_DATA_DIR, else `.recloser` in the project, else (root, closed project) a folder under /var/tmp."""
    if named := os.environ.get("RECLOSER_DATA_DIR"):
        return Path(named).expanduser().resolve()
    if os.geteuid() == 0 and not open_to_others(PROJECT):
        return shared_folder()
    return PROJECT / ".recloser"


def shared_folder() -> Path:
    """A folder that the servers' account can reach wherever the project lies."""
    return Path("/var/tmp") / f"recloser-{short_hash(PROJECT)}"  # noqa: S108 (its owner is checked)


def lasting(data: Path) -> Places:
    """The places of servers whose data outlive them."""
    account = server_account(data / "postgres")
    own_folder(data, account)
    if account and not open_to_others(data):
        raise Problem(
            f"the servers cannot run as root and {data} is closed to other users:"
            " set RECLOSER_DATA_DIR to a folder that they can reach, such as one under /var/lib"
        )
    places = Places(data, run_root() / f"rcl-{short_hash(data)}", account)
    for folder in (places.run, places.valkey, places.logs):
        lend_folder(folder, account)
    return places


def throwaway() -> Places:
    """New places under one temporary folder."""
    account = server_account(Path(os.devnull))
    data = Path(tempfile.mkdtemp(prefix=f"rcl-test-{os.geteuid()}-", dir=run_root()))
    data.chmod(0o711)
    places = Places(data, data / "s", account)
    for folder in (places.run, places.valkey, places.logs):
        lend_folder(folder, account)
    return places


def run_root() -> Path:
    """Where socket folders are made; never TMPDIR, which may be long or private."""
    return Path(os.environ.get("RECLOSER_RUN_DIR", "/tmp"))  # noqa: S108 (as above)


def own_folder(folder: Path, account: Account | None = None) -> None:
    """Make a folder that is ours; others may pass through it only where a server's account must."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        _refuse_strangers(folder, os.geteuid())
        if account:
            folder.chmod(stat.S_IMODE(folder.stat().st_mode) | 0o011)
        # Also true where the mode allows it and the disk does not.
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise _unwritable(folder, error) from None


def lend_folder(folder: Path, account: Account | None) -> None:
    """Make a folder that belongs to the servers' account alone."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if account and folder.lstat().st_uid == 0:
            os.chown(folder, account.uid, account.gid, follow_symlinks=False)
        _refuse_strangers(folder, account.uid if account else os.geteuid())
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(folder: Path, error: OSError) -> Problem:
    reason = (error.strerror or str(error)).lower()
    return Problem(f"cannot write to {folder} ({reason}): set RECLOSER_DATA_DIR to a folder that you own")


def _refuse_strangers(folder: Path, uid: int) -> None:
    """A folder with a guessable name under /tmp may have been laid there by someone else."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid:
        raise Problem(
            f"{folder} belongs to another user (id {found.st_uid}):"
            " remove it, or set RECLOSER_DATA_DIR to a folder of your own"
        )


def reachable_copy(package: Path, version: str, account: Account | None) -> Path:
    """The package itself, or a copy of it (libraries included) where `account` can reach it."""
    if account is None or open_to_others(package):
        return package
    home = shared_folder()
    own_folder(home, account)
    target = home / f"{package.name}-{version}"
    if not target.exists():
        _copy_open(package, target)
    return target / package.name


def _copy_open(package: Path, target: Path) -> None:
    """Copy under another name first, so that a copy that was cut short is never used."""
    staging = Path(tempfile.mkdtemp(prefix="copy-", dir=target.parent))
    for source in package.parent.glob(f"{package.name}*"):
        if source.name in (package.name, f"{package.name}.libs"):  # the wheel's libraries lie beside it
            shutil.copytree(source, staging / source.name)
    for path in (staging, *staging.rglob("*")):
        runs = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
        path.chmod(0o755 if runs else 0o644)
    try:
        staging.rename(target)
    except OSError:  # another process was first
        shutil.rmtree(staging)


def short_hash(path: Path) -> str:
    """Ten characters that stand for a path."""
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:10]
