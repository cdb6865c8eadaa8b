"""The processes of the demo: a control plane of its own, two vendors, three agents with Recloser and three without."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.local import embedded, secret
from deploy.local.places import PROJECT, data_folder
from deploy.local.problem import Problem

AGENTS = 3
LEAD_S = 3.0
"""From the start of the processes to their first step, so that all begin together."""
READY_WITHIN_S = 120.0
USER = "demo"


@dataclass
class Stage:
    """What is running, and where."""

    data: Path
    password: str
    url: str = ""
    begin: float = 0.0
    vendors: dict[str, str] = field(default_factory=dict)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def log(self) -> Path:
        """What the control plane and the players say."""
        return self.data / "demo.log"

    def strike(self) -> None:
        """End everything; the control plane last, so that the agents' last reports arrive."""
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
        self.processes.clear()


def set_up(stage: Stage) -> None:
    """Start the control plane, set it up as operators would, and start the players."""
    for name in ("DATABASE_URL", "REDIS_URL"):
        os.environ.pop(name, None)  # the demo never touches an installation
    stage.data.mkdir(parents=True, exist_ok=True)
    stage.url = f"http://127.0.0.1:{_free_port(8010)}"
    environment = _environment(stage)
    _start(stage, ["-m", "deploy.local", "up"], environment)
    _wait(stage, f"{stage.url}/readyz")
    environment |= _addresses(stage)
    os.environ.update(environment)
    stage.begin = time.time() + LEAD_S
    for group in ("with_recloser", "without"):
        stage.vendors[group] = _vendor(stage, environment)
    key = _seed(stage.vendors["with_recloser"], environment)
    for number in range(AGENTS):
        _agents(stage, number, key, environment)


def place(*, check: bool) -> Stage:
    """Where the demo keeps its data: apart from `make up`, and anew for each check."""
    data = data_folder() / ("demo-check" if check else "demo")
    if check:
        shutil.rmtree(data, ignore_errors=True)
    return Stage(data=data, password=_password(data))


def _password(data: Path) -> str:
    """The same over restarts: it is printed each time, and opens nothing but the demo."""
    data.mkdir(parents=True, exist_ok=True)
    kept = data / "password"
    if not kept.exists():
        secret.write_private(kept, secrets.token_urlsafe(12))
    return kept.read_text()


def _environment(stage: Stage) -> dict[str, str]:
    return {
        **os.environ,
        "RECLOSER_DATA_DIR": str(stage.data),
        "RECLOSER_PORT": stage.url.rpartition(":")[2],
        "RECLOSER_HOST": "127.0.0.1",
        "RECLOSER_PUBLIC_URL": stage.url,
        "RECLOSER_ADMIN_USER": USER,
        "RECLOSER_ADMIN_PASSWORD": stage.password,
    }


def _addresses(stage: Stage) -> dict[str, str]:
    """What a process beside the supervisor needs to work on its data."""
    servers = embedded.ensure("run", stage.data)
    return {
        **secret.missing(stage.data, os.environ),
        "DATABASE_URL": servers.database_url,
        "REDIS_URL": servers.redis_url,
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
        "RECLOSER_LOG_LEVEL": "WARNING",
    }


def _vendor(stage: Stage, environment: Mapping[str, str]) -> str:
    port = _free_port(9001)
    _start(stage, ["-m", "demo.vendor", "--port", str(port), "--begin", repr(stage.begin)], environment)
    url = f"http://127.0.0.1:{port}"
    _wait(stage, f"{url}/_stats")
    return url


def _seed(vendor: str, environment: Mapping[str, str]) -> str:
    command = [sys.executable, "-m", "demo.seed", "--vendor", vendor]
    done = subprocess.run(command, env=dict(environment), cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Problem(f"the demo could not be set up: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.strip().splitlines()[-1]


def _agents(stage: Stage, number: int, key: str, environment: Mapping[str, str]) -> None:
    share = ["--share", f"{number}/{AGENTS}", "--begin", repr(stage.begin)]
    mine = {"RECLOSER_URL": stage.url, "RECLOSER_KEY": key, "RECLOSER_INSTANCE": f"travel-{number + 1}"}
    _start(stage, ["-m", "demo.agent", "--vendor", stage.vendors["with_recloser"], *share], {**environment, **mine})
    _start(stage, ["-m", "demo.agent", "--vendor", stage.vendors["without"], *share, "--bare"], environment)


def _start(stage: Stage, arguments: list[str], environment: Mapping[str, str]) -> None:
    with stage.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=dict(environment),
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches the demo alone, which ends the others in their order
        )
    stage.processes.append(process)


def _wait(stage: Stage, url: str) -> None:
    """Until the address answers; a process that died meanwhile is told."""

    def answers() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310 (our own processes)
                return True
        except (OSError, urllib.error.URLError):
            return False

    _until(answers, stage, what=url)


def _until(true: Callable[[], Any], stage: Stage, *, what: str) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while not true():
        if any(process.poll() is not None for process in stage.processes):
            raise Problem(f"a process of the demo ended at once: {_last_line(stage.log)} (all of it: {stage.log})")
        if time.monotonic() > deadline:
            raise Problem(f"{what} does not answer after {READY_WITHIN_S:g} s: see {stage.log}")
        time.sleep(0.2)


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def _free_port(first: int) -> int:
    """The first free one from here on."""
    for port in range(first, first + 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise Problem(f"no free port from {first} to {first + 99}: end what holds them")
