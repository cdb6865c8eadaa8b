"""Which build this process serves: the same in every process of one deployment, another after the next."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest

HEADER, FIELD = "X-Recloser-Build", "build"
SUFFIXES = frozenset({".py", ".html", ".css", ".js"})


@functools.cache
def current() -> str:
    """A short name for the pages as they are now: their code, templates, styles and scripts."""
    digest = hashlib.sha256(settings.VERSION.encode())
    for path in _files():
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _files() -> Iterator[Path]:
    here = Path(__file__).parent
    return iter(sorted(path for path in here.rglob("*") if path.suffix in SUFFIXES and path.is_file()))


def is_outdated(request: HttpRequest) -> bool:
    """Whether the page that asks is of another build; what does not say its build is a script, and no page."""
    given = request.headers.get(HEADER) or (request.POST.get(FIELD) if request.method == "POST" else None)
    return bool(given) and given != current()
