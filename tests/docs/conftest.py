"""The site, built once as `make docs` builds it; and ground for a control plane of the reader's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.conftest import folder, ground
from tests.docs.marked import DOCS, ROOT

__all__ = ["folder", "ground"]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning fails every test that wants it."""
    made = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "--fresh-env"]
    done = subprocess.run([*command, str(DOCS), str(made)], capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return made
