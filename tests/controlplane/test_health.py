"""/healthz and /readyz tell the truth."""

from datetime import timedelta

import pytest
import redis

from controlplane import clock, redis_clients
from controlplane.selectors import board, due
from controlplane.services import system
from tests import factories

pytestmark = pytest.mark.django_db


def _ready(client):
    answer = client.get("/readyz")
    return answer.status_code, answer.json()


def test_a_process_that_lives_says_so(client):
    answer = client.get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"alive": True})
    assert answer.headers["cache-control"] == "no-store"


def test_without_scheduler_and_workers_it_is_ready_and_degraded(client):
    status, body = _ready(client)

    assert (status, body["postgres"], body["redis"]) == (200, "up", "up")
    assert body["degraded"] == ["scheduler", "worker"]
    assert body["scheduler"] == {"state": "away", "age_s": None, "processes": 0, "failing": []}


def test_processes_that_were_heard_are_up_with_their_age(client, frozen_clock):
    for kind, name in (("scheduler", "a"), ("worker", "b"), ("worker", "c")):
        system.beat(kind=kind, name=name, detail={"leader": True, "listening": True, "failing": ["sweep"]})
    frozen_clock.advance(4)

    _, body = _ready(client)

    assert body["degraded"] == []
    assert body["scheduler"] == {"state": "up", "age_s": 4.0, "processes": 1, "failing": ["sweep"]}
    assert body["worker"]["processes"] == 2


def test_a_scheduler_that_fell_silent_is_away(client, frozen_clock):
    system.beat(kind="scheduler", name="a", detail={"leader": True}, now=clock.now() - timedelta(seconds=30))

    _, body = _ready(client)

    assert body["scheduler"] == {"state": "away", "age_s": 30.0, "processes": 0, "failing": []}
    assert "scheduler" in body["degraded"]


def test_a_celery_worker_that_waits_for_its_broker_is_none(client):
    system.beat(kind="worker", name="a", detail={"listening": False})

    _, body = _ready(client)

    assert (body["worker"]["state"], body["worker"]["processes"]) == ("away", 1)
    assert "worker" in body["degraded"]


def test_health_board_and_scheduler_agree_on_when_a_celery_worker_is_gone(client, frozen_clock):
    cast = factories.cast()
    system.beat(kind="worker", name="a", detail={"listening": True})
    seen = []
    for seconds in (0, 5, 1.5):
        now = frozen_clock.advance(seconds)
        shown = board.board(cast.prod, evidence_store_up=True).delivery.celery_workers
        seen.append((_ready(client)[1]["worker"]["state"] == "up", shown == 1, due.celery_worker_lives(now)))

    assert seen == [(True,) * 3, (True,) * 3, (False,) * 3]


def test_a_scheduler_that_stands_by_is_no_scheduler_that_leads(client):
    system.beat(kind="scheduler", name="a", detail={"leader": False})

    _, body = _ready(client)

    assert body["scheduler"] == {"state": "away", "age_s": None, "processes": 1, "failing": []}
    assert "scheduler" in body["degraded"]


def test_a_redis_that_is_away_degrades(client, monkeypatch):
    nowhere = redis.Redis(unix_socket_path="/nowhere/valkey.sock")
    monkeypatch.setattr(redis_clients, "blocking", lambda: nowhere)

    status, body = _ready(client)

    assert (status, body["redis"], body["ready"]) == (200, "away", True)
    assert "redis" in body["degraded"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_only_read(client, path):
    assert client.post(path).status_code == 405
