"""The README's pictures of the Board, while the demo's recorded outage runs: python -m tests.e2e.picture FOLDER"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

SIZE = {"width": 1280, "height": 860}
OUTAGE_WITHIN_MS, PROBE_WITHIN_MS = 180_000, 120_000
PROBED = re.compile(r"failed .* ago")
SIGN_IN = re.compile(r"open (\S+) and sign in as (\S+) with the password (\S+)")


def main() -> None:
    """Play the demo, and take the Board in both themes while a circuit is open."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with demo() as (address, name, password), browser() as chromium:
        pages = {theme: signed_in(chromium, theme, address, name, password) for theme in ("light", "dark")}
        pages["light"].get_by_text("needs you").wait_for(timeout=OUTAGE_WITHIN_MS)
        pages["light"].locator(".need dd", has_text=PROBED).first.wait_for(timeout=PROBE_WITHIN_MS)
        for theme, page in pages.items():
            page.screenshot(path=folder / ("board.png" if theme == "light" else "board-dark.png"))


@contextmanager
def demo() -> Iterator[tuple[str, str, str]]:
    """The demo, and how to sign in to it."""
    process = subprocess.Popen([sys.executable, "-m", "demo"], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = next(match for line in process.stderr if (match := SIGN_IN.search(line)))
        yield found[1], found[2], found[3]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium from the PATH."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        yield chromium
        chromium.close()


def signed_in(chromium: Browser, theme: str, address: str, name: str, password: str) -> Page:
    """The Board, in one theme, before anything happens."""
    context = chromium.new_context(viewport=SIZE, color_scheme=theme, device_scale_factor=2)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(address)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", level=1).wait_for()
    return page


if __name__ == "__main__":
    main()
