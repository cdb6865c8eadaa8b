"""`make up` as a newcomer meets it: the real processes, from an empty folder to a signed-in admin, twice."""

import re
import sys

import httpx
import pytest

from tests.deploy.conftest import Up, clean_environment

pytestmark = pytest.mark.e2e


def start(ground):
    environment = clean_environment(RECLOSER_DATA_DIR=str(ground.data), RECLOSER_PORT=str(ground.port))
    up = Up([sys.executable, "-m", "deploy.local", "up"], environment)
    ground.started.append(up)
    return up


def sign_in(address, password):
    """What a browser does: fetch the form, send it back with its token."""
    with httpx.Client(base_url=address, follow_redirects=True, timeout=20) as browser:
        form = browser.get("/")
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form.text)[1]
        sent = {"csrfmiddlewaretoken": token, "username": "admin", "password": password}
        return browser.post(form.url, data=sent, headers={"Origin": address})


def test_a_newcomer_signs_in_and_an_agent_is_known_from_the_first_start_on(ground):
    address = f"http://127.0.0.1:{ground.port}"
    up = start(ground)
    password = up.until(r"first admin: user admin, password (\S+) ")[1]
    token = up.until(r"first agent key: (\S+) for agent")[1]
    assert up.until(r"the dashboard is at (\S+)/ ")[1] == address
    up.until(r"^worker .*ready")

    board = sign_in(address, password)
    config = httpx.get(f"{address}/agent/v1/config", headers={"Authorization": f"Bearer {token}"}, timeout=20)

    if board.status_code != 200:
        up.end()
    assert (board.status_code, board.url.path) == (200, "/"), "\n".join(up.lines)
    assert config.status_code == 200
    assert httpx.get(f"{address}/agent/v1/config", timeout=20).status_code == 401
    assert up.end() == 0
    assert not any("Traceback" in line for line in up.lines)

    again = start(ground)
    again.until("the dashboard is at")

    assert sign_in(address, password).status_code == 200
    assert again.end() == 0
    assert not any(secret in line for line in again.lines for secret in (password, token, "first admin"))
