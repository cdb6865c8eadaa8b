"""How pages answer: whole or in part from the same address, and problems that say how to mend them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.utils.html import format_html

from controlplane.permissions import ADMINISTER, EDIT_POLICY, OPERATE, QUARANTINE


@dataclass(frozen=True, slots=True)
class Undo:
    """What takes a deed back: a deed of its own, with its own words."""

    address: str
    title: str


def told(request: HttpRequest, text: str, undo: Undo | None) -> None:
    """Say it on the next page, with what takes it back: for who has no JavaScript."""
    if undo is None:
        messages.success(request, text)
        return
    messages.success(request, format_html('{} <a href="{}">{} instead</a>', text, undo.address, undo.title))


def is_partial(request: HttpRequest) -> bool:
    """Whether the page's script asks for a part."""
    return request.headers.get("HX-Request") == "true"


def respond(
    request: HttpRequest, folder: str, context: dict[str, Any], *, part: str = "_live", status: int = 200
) -> HttpResponse:
    """The page in `folder`, or its part alone when the page's own script asks."""
    name = part if is_partial(request) else "page"
    response = render(request, f"dashboard/{folder}/{name}.html", context | rights(request), status=status)
    patch_vary_headers(response, ["HX-Request"])
    return _compressed(request, response)


def _compressed(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """What is read is sent small (and padded at random: its length tells nothing of what stands in it)."""
    if request.method == "GET":
        GZipMiddleware(lambda _: response).process_response(request, response)
    return response


def rights(request: HttpRequest) -> dict[str, Any]:
    """What this person may do: whoever may not, gets no button; the server refuses all the same."""
    return {
        "may_operate": request.user.has_perm(OPERATE),
        "may_quarantine": request.user.has_perm(QUARANTINE),
        "may_edit": request.user.has_perm(EDIT_POLICY) or request.user.has_perm(OPERATE),
        "may_edit_policy": request.user.has_perm(EDIT_POLICY),
        "may_administer": request.user.has_perm(ADMINISTER),
        "version": settings.VERSION,
        "public_url": settings.PUBLIC_URL,
    }


def problem(request: HttpRequest, *, status: int, title: str, message: str, mend: str = "") -> HttpResponse:
    """What went wrong and how to mend it, as a page or as a note above the page."""
    context = {"title": title, "message": message, "mend": mend, "status": status}
    if not is_partial(request):
        return render(request, "dashboard/problem/page.html", context, status=status)
    response = render(request, "dashboard/problem/_note.html", context, status=status)
    return to_notes(response)


def to_notes(response: HttpResponse) -> HttpResponse:
    """Let a fragment appear in the notes, whatever it was asked for."""
    response["HX-Retarget"] = "#notes"
    response["HX-Reswap"] = "innerHTML"
    return response
