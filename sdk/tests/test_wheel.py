"""The built wheel, installed alone into fresh environments: what a user gets, without Django, on every Python we name.

`RECLOSER_PYTHONS` (paths, separated as PATH is) names the interpreters; else python3.11 and python3.13 are looked for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from recloser.testing import FakeControlPlane

pytestmark = pytest.mark.e2e

SDK = Path(__file__).parent.parent
WANTED = ("3.11", "3.13")

SMOKE = """
    import asyncio, sys, sysconfig, threading
    import recloser
    from recloser import Client, Outcome, Pace
    assert "site-packages" in recloser.__file__, recloser.__file__
    for module in ("django", "pytest", "httpx", "msgspec"):
        try:
            __import__(module)
        except ImportError:
            continue
        raise SystemExit(f"{module} is installed: this environment is not alone")

    def failing(**_):
        raise ConnectionError

    async def found(**_):
        return "found"

    client = Client(sys.argv[1], sys.argv[2], cache_dir=sys.argv[3], pace=Pace(stream_base_s=0.05))
    with client.run("sync", step_limit=20) as run:
        for k in range(3):
            assert run.step(100)
            run.used(tokens=90, seconds=0.1)
            assert run.call("web_search", {"k": k}, failing)["error"] == "retryable_error"
        assert run.tools([{"name": "web_search"}, {"name": "mail"}]) == [{"name": "mail"}]
        assert run.call("web_search", {}, failing)["status"] == "unavailable"
        result = run.finish("Done.")
    assert result.degraded and "web_search" in result.text_with_disclosure("Done.")

    async def loop():
        async with client.run("async") as run:
            run.step()
            assert await asyncio.gather(*(run.acall("mail", {"k": k}, found) for k in range(20))) == ["found"] * 20
    asyncio.run(loop())

    def agent():
        with client.run("thread") as run:
            for k in range(200):
                assert run.call("db", {"k": k, "q": "x"}, lambda **_: "row") == "row"
    threads = [threading.Thread(target=agent) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert client.flush(10), client.status()
    client.close()

    frozen = Client(sys.argv[1], sys.argv[2], cache_dir=False, mode="invocation")
    with frozen.run("invocation") as run:
        assert run.call("frozen", {}, lambda: 1) == 1
"""


def interpreters() -> list[str]:
    """Those that are named, else those that are found; the one that runs us among them."""
    if named := os.environ.get("RECLOSER_PYTHONS"):
        return [path for path in named.split(os.pathsep) if path]
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return [sys.executable if version == own else f"python{version}" for version in sorted({*WANTED, own})]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources by the build back-end that the project names."""
    pytest.importorskip("hatchling", reason="hatchling is not installed: the wheel cannot be built")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "sdk"
    shutil.copytree(SDK, source, ignore=shutil.ignore_patterns("tests", ".*", "__pycache__"))
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=source)
    [built] = folder.glob("*.whl")
    return built


def run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd, check=False, env=clean())
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def clean() -> dict[str, str]:
    """The environment without what would lead Python elsewhere."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RECLOSER_", "VIRTUAL_"))
    }


@pytest.fixture(scope="module", params=interpreters())
def alone(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with nothing but the wheel in it; its interpreter."""
    python = shutil.which(request.param)
    if python is None or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode:
        reason = f"NOT TESTED: no {request.param} that runs is on PATH (name it in RECLOSER_PYTHONS)"
        print(f"\n{reason}", file=sys.__stderr__)
        pytest.skip(reason)
    home = tmp_path_factory.mktemp("alone") / "venv"
    own = home / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if uv is not None:
        run(python, "-m", "venv", "--without-pip", str(home))
        run(uv, "pip", "install", "--quiet", "--no-index", "--no-deps", "--python", str(own), str(wheel))
    else:
        run(python, "-m", "venv", str(home))
        run(str(own), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel))
    return own


def test_the_wheel_holds_the_sdk_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "recloser/py.typed" in names and "recloser/core/circuit.py" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"recloser", "recloser_pytest.py"}
    assert not [name for name in names if name.split("/")[-1].startswith(("test_", "conftest"))]


def test_it_imports_without_a_warning_and_without_weight(alone):
    said = run(
        str(alone), "-W", "error", "-c",
        "import sys; import recloser; print(sorted({'ssl', 'http.client', 'asyncio', 'email', 'uuid', 'tempfile', "
        "'urllib.request', 'multiprocessing', 'socket'} & set(sys.modules)))",
    )  # fmt: skip
    assert said.strip() == "[]"


def test_it_works_where_nothing_else_is_installed(alone, tmp_path):
    script = tmp_path / "smoke.py"
    script.write_text(textwrap.dedent(SMOKE), "utf-8")
    with FakeControlPlane() as plane:
        run(str(alone), "-W", "error", str(script), plane.url, plane.key, str(tmp_path / "cache"), cwd=tmp_path)
        assert plane.counts("web_search") == {"retryable_error": 3, "rejected": 1}
        assert plane.counts("mail") == {"ok": 20} and plane.counts("db") == {"ok": 800}
        assert plane.counts("frozen") == {"ok": 1}
        assert "consecutive_failures" in [trip["signal"] for trip in plane.stored("trips")]


def test_the_plugin_is_there_for_who_has_pytest_and_nothing_else(alone, tmp_path):
    """pytest and what it needs are copied from this environment, so that nothing is fetched."""
    packages = tmp_path / "packages"
    for name in ("pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        copy_package(name, packages)
    (tmp_path / "test_it.py").write_text(textwrap.dedent(SESSION), "utf-8")
    path = f"import sys; sys.path.append({str(packages)!r}); import pytest; raise SystemExit(pytest.main(sys.argv[1:]))"
    said = run(str(alone), "-c", path, "-v", "-W", "error", "-p", "no:cacheprovider", str(tmp_path), cwd=tmp_path)
    assert "2 passed" in said and "plugins: recloser-" in said


SESSION = """
    import sys

    def test_first_nothing_of_the_sdk_is_imported():
        assert [name for name in sys.modules if name.split(".")[0] == "recloser"] == []

    def test_then_its_fixtures_work(recloser_plane, recloser_client, recloser_clock):
        with recloser_plane.outage("web_search"), recloser_client.run() as run:
            assert run.tools([{"name": "web_search"}]) == []
        recloser_clock.advance(1)
"""


def copy_package(name: str, to: Path) -> None:
    for file in metadata.files(name) or ():
        if ".." not in file.parts:
            (to / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), to / file)


@pytest.mark.parametrize("name", ["cases.json", "own.json"])
def test_the_conformance_cases_pass_there(alone, name):
    said = run(str(alone.with_name("recloser")), "conformance", str(SDK / "tests" / "vectors" / name))
    assert " 0 failed" in said and not said.startswith("0 passed")
