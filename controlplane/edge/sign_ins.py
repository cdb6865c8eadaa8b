"""Whose pages may go on watching: looked at for all of a process at once, so that many open pages cost one look."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import structlog
from django.conf import settings
from django.contrib.auth import get_user
from django.db import Error as DatabaseError
from django.http import HttpRequest
from django.utils import timezone

from controlplane.delivery.hub import cancelled
from controlplane.models import User
from controlplane.permissions import VIEW
from controlplane.threads import Threads

CHECK_S = 20.0
"""A sign-in that has ended ends its streams within so long."""

Grounds = tuple[object, object]
"""What a person's leave to watch rests on: the rows of the session and of the person, None where there is none."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody who is signed in and may view, and on what grounds."""

    cookie: str
    person_id: int
    grounds: Grounds


def viewer(cookie: str) -> Viewer | None:
    """Who is signed in by it and may view; None for everyone else."""
    if not cookie:
        return None
    session = _sessions([cookie]).get(cookie)  # read before it is judged: a change in between is judged anew
    request = HttpRequest()
    request.session = _store()(cookie)
    person = get_user(request)
    if person.pk is None or not person.has_perm(VIEW):
        return None
    return Viewer(cookie, person.pk, (session, tuple(getattr(person, name) for name in _FIELDS)))


class SignIns:
    """The sign-ins by which streams of this process are open."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._viewers: dict[str, Viewer] = {}
        self._ends: dict[str, set[Callable[[], object]]] = {}
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._looking = asyncio.create_task(self._look())

    async def close(self) -> None:
        """Look no more."""
        if self._looking is not None:
            await cancelled([self._looking])

    @contextlib.contextmanager
    def ending(self, viewer: Viewer, end: Callable[[], object]) -> Iterator[None]:
        """Meanwhile, `end` is called once the sign-in is over."""
        self._viewers[viewer.cookie] = viewer
        ends = self._ends.setdefault(viewer.cookie, set())
        ends.add(end)
        try:
            yield
        finally:
            ends.discard(end)
            if not ends:
                self._ends.pop(viewer.cookie, None)
                self._viewers.pop(viewer.cookie, None)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            asked = list(self._viewers.values())
            if not asked:
                continue
            try:
                still = await self._threads.run(still_viewing, asked)
            except DatabaseError as error:
                log.warning("sign_ins_not_read", error=type(error).__name__)
            except Exception:  # whatever it is, the next look may end what this one could not
                log.exception("sign_ins_not_judged")
            else:
                self._settle(asked, still)

    def _settle(self, asked: Iterable[Viewer], still: Mapping[str, Viewer]) -> None:
        for cookie in (each.cookie for each in asked):
            if cookie not in still:
                for end in list(self._ends.get(cookie, ())):
                    end()
            elif cookie in self._viewers:
                self._viewers[cookie] = still[cookie]


def still_viewing(asked: Iterable[Viewer]) -> dict[str, Viewer]:
    """Of those, who may still view, by cookie. Where no row has changed since that was found out, it holds still."""
    asked = list(asked)
    sessions, people = _sessions([each.cookie for each in asked]), _people([each.person_id for each in asked])
    found = {}
    for each in asked:
        holds = each.grounds == (sessions.get(each.cookie), people.get(each.person_id))
        if viewing := each if holds else viewer(each.cookie):
            found[each.cookie] = viewing
    return found


_FIELDS = [field.attname for field in User._meta.concrete_fields if field.attname != "last_login"]


def _people(ids: Sequence[int]) -> dict[int, object]:
    return {row[0]: row[1:] for row in User.objects.filter(pk__in=ids).values_list("pk", *_FIELDS)}


def _sessions(cookies: Sequence[str]) -> dict[str, object]:
    alive = _store().get_model_class().objects.filter(session_key__in=cookies, expire_date__gt=timezone.now())
    return {row[0]: row[1:] for row in alive.values_list("session_key", "session_data", "expire_date")}


def _store() -> Any:
    return import_module(settings.SESSION_ENGINE).SessionStore
