"""Who may see or do what: sign-in, its expiry inside a fragment, and permissions, with every refusal on record."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, cast
from urllib.parse import urlencode, urlsplit

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache

from controlplane.models import Environment, User
from controlplane.permissions import VIEW
from controlplane.services import audit
from dashboard import build
from dashboard.respond import problem

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]

READING = frozenset({"GET", "HEAD"})
OUTDATED = "recloser:outdated"


def needs(permission: str = VIEW) -> Callable[[View[P]], View[P]]:
    """A view for people who are signed in and whose role grants this."""

    def wrap(view: View[P]) -> View[P]:
        @never_cache
        @functools.wraps(view)
        def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return to_sign_in(request)
            if not request.user.has_perm(permission):
                return refused(request, permission, kwargs)
            if build.is_outdated(request):
                return _from_an_old_page(request, kwargs, lambda: view(request, *args, **kwargs))
            return view(request, *args, **kwargs)

        return cast(View[P], guarded)

    return wrap


def to_sign_in(request: HttpRequest) -> HttpResponse:
    """Lead to sign-in and back: a page by redirect, a fragment by telling the client, which goes there whole."""
    if not request.headers.get("HX-Request"):
        return redirect(_sign_in(request.get_full_path()))
    response = HttpResponse(status=401)
    response["HX-Redirect"] = _sign_in(_current_page(request))
    return response


def _sign_in(back: str) -> str:
    return f"{reverse('dashboard:sign-in')}?{urlencode({'next': back})}"


def _current_page(request: HttpRequest) -> str:
    """Where the person is; a fragment without that header is asked for by the page of the same address."""
    parts = urlsplit(request.headers.get("HX-Current-URL", ""))
    if not parts.path:
        return request.get_full_path()
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def refused(request: HttpRequest, permission: str, target: Any) -> HttpResponse:
    """403; an attempt to change something goes on record."""
    if request.method not in READING:
        _record(request, target)
    return problem(
        request,
        status=403,
        title="Your role may not do this",
        message=f"{actor(request)} is signed in as {person(request).get_role_display()}.",
        mend="Ask an admin for a role that may, or sign in as somebody else.",
    )


def _from_an_old_page(request: HttpRequest, target: Any, read: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    """A page older than the server may read on, and is told so; what it wants to change is refused, on record."""
    if request.method in READING:
        response = read()
    else:
        _record(request, target, "the page was older than the server")
        response = problem(
            request,
            status=409,
            title="This page is older than the server",
            message="Recloser was updated since you opened it. Nothing was changed.",
            mend="Load the page anew, look, and decide again.",
        )
    response["HX-Trigger"] = OUTDATED
    return response


def _record(request: HttpRequest, target: Any, why: str = "the role does not grant it") -> None:
    match = request.resolver_match
    slug = target.get("environment", "")
    environment = Environment.objects.filter(slug=slug).values_list("pk", flat=True).first()
    audit.record(
        actor=actor(request),
        action=str(target.get("action") or (match.url_name if match else "unknown")),
        target=str(target.get("dependency") or request.path)[:200],
        accepted=False,
        environment_id=environment,
        reason=why,
    )


def person(request: HttpRequest) -> User:
    """Who is signed in."""
    return cast(User, request.user)


def actor(request: HttpRequest) -> str:
    """The name that goes on record."""
    return person(request).get_username()
