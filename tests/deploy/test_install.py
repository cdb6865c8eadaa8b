"""What `make setup` decides, and what the project's own files must not hold."""

import json
import platform
import re
import subprocess

import pytest

from deploy import install
from deploy.local.places import PROJECT


@pytest.fixture(autouse=True)
def no_servers_given(monkeypatch):
    for name in ("DATABASE_URL", "REDIS_URL", "DATABASE_URL_FILE", "REDIS_URL_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def venv(tmp_path, monkeypatch):
    """An environment that says what was installed in it."""
    monkeypatch.setattr(install, "STAMP", tmp_path / "stamp.json")
    monkeypatch.setattr(install, "VENV", tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "recloser").touch()

    def stamp(*locks):
        digests = [install.digest(lock) for lock in locks]
        install.STAMP.write_text(json.dumps({"place": install.place(), "locks": digests}))

    return stamp


def test_the_embedded_servers_are_installed_unless_both_addresses_are_given(monkeypatch):
    assert install.EMBEDDED in install.wanted_locks(False)

    monkeypatch.setenv("DATABASE_URL", "postgresql://db.example/")
    assert install.EMBEDDED in install.wanted_locks(False)

    monkeypatch.setenv("REDIS_URL_FILE", "/run/secrets/redis")
    assert install.EMBEDDED not in install.wanted_locks(False)


def test_a_system_without_embedded_servers_is_told_what_to_set(monkeypatch):
    monkeypatch.setattr(install.sys, "platform", "linux")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))

    with pytest.raises(install.Problem, match="set DATABASE_URL and REDIS_URL"):
        install.wanted_locks(False)


def test_nothing_is_done_when_the_locks_are_installed(venv):
    venv(install.TOOLS, install.RUN, install.EMBEDDED)

    assert install.is_done(install.wanted_locks(False))
    assert not install.is_done(install.wanted_locks(True))


def test_a_development_setup_serves_for_running_too(venv):
    venv(install.TOOLS, install.DEVELOP, install.EMBEDDED)

    assert install.is_done(install.wanted_locks(False))


@pytest.mark.parametrize("stamp", [None, "{", '{"place": "elsewhere", "locks": []}'])
def test_a_missing_or_foreign_stamp_means_a_new_setup(venv, stamp):
    if stamp is not None:
        install.STAMP.write_text(stamp)

    assert not install.is_done(install.wanted_locks(False))


def test_the_environment_of_another_clone_is_left_alone(tmp_path, monkeypatch):
    others = tmp_path / "others"
    others.mkdir()
    (others / "stamp.json").write_text("{}")
    monkeypatch.setattr(install, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(install, "STAMP", install.VENV / "stamp.json")
    monkeypatch.setattr(
        install, "run", lambda purpose, *command: (install.VENV / "bin").mkdir(parents=True, exist_ok=True)
    )
    install.VENV.symlink_to(others)

    install.install([])

    assert [each.name for each in others.iterdir()] == ["stamp.json"]
    assert install.VENV.is_dir() and not install.VENV.is_symlink()


def test_a_python_without_venv_is_told_which_package_to_install(venv, monkeypatch):
    monkeypatch.setattr(install.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(install.Problem, match=r"install python3-venv \(apt install python3\.\d+-venv\)"):
        install.prepare_venv()


def test_a_folder_that_is_not_ours_is_named(venv, monkeypatch):
    monkeypatch.setattr(install.os, "access", lambda path, mode: False)

    with pytest.raises(install.Problem, match=r"cannot write to .*: use a clone in a folder that you own"):
        install.prepare_venv()


def test_an_unfit_python_looks_for_a_fitting_one_and_else_says_so(monkeypatch):
    monkeypatch.setattr(install.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(install.shutil, "which", lambda name: None)

    with pytest.raises(install.Problem, match=r"install Python 3\.11, 3\.12 or 3\.13"):
        install.use_fitting_python([])


def test_a_failing_step_is_named_after_its_own_words(capfd):
    with pytest.raises(install.Problem, match="could not do it"):
        install.run("do it", "sh", "-c", "echo the reason; exit 3")

    assert capfd.readouterr().err == "the reason\n"


@pytest.mark.parametrize("lock", sorted(PROJECT.glob("requirements*.lock")), ids=lambda path: path.name)
def test_a_lock_names_no_address_and_hashes_everything(lock):
    """Whoever installs uses the index that their machine is set up for."""
    text = lock.read_text()

    assert not re.search(r"https?://|file://|^-", text, re.MULTILINE)  # an address, or a line that is an option
    assert text.count("==") <= text.count("--hash=sha256:")
    assert "/" not in re.sub(r"\s+--hash=\S+", "", text)


def test_make_lists_its_commands():
    shown = subprocess.run(["make", "-s"], cwd=PROJECT, capture_output=True, text=True).stdout

    for name in ("setup", "up", "test", "demo", "lint", "types", "check", "lock", "clean", "reset", "help"):
        assert re.search(rf"^  make {name} +\w", shown, re.M), name
