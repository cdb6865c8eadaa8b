"""The whole of it in real processes, and what becomes of it when one of them dies in the middle.

The processes live as long as this file's tests; each test has a dependency of its own and replaces whom it killed.
"""

import itertools
import signal
import time

import pytest
from django.core.management import call_command
from django.db import connection

from controlplane import clock
from controlplane.models import AlertDelivery, Transition
from controlplane.selectors import places
from controlplane.services import alerts
from tests.servers import servers
from tests.workers.processes import Processes, until
from tests.workers.receiver import Receiver
from tests.workers.stage import another, audience
from tests.workers.vendor import hang

pytestmark = [pytest.mark.e2e, pytest.mark.django_db(transaction=True)]

_number = itertools.count(1)


@pytest.fixture(scope="module")
def everybody(django_db_setup, django_db_blocker):
    """One database for all of it, emptied at the end."""
    with django_db_blocker.unblock():
        yield audience()
        call_command("flush", interactive=False, verbosity=0)


@pytest.fixture
def _django_db_helper(everybody):
    """In the place of pytest-django's own, which would empty the database under the running processes."""


@pytest.fixture(scope="module")
def house(everybody, tmp_path_factory):
    started = Processes(tmp_path_factory.mktemp("processes"))
    yield started
    started.end()


@pytest.fixture
def processes(house):
    yield house
    house.say()


@pytest.fixture
def stage(everybody):
    return another(everybody, f"search-{next(_number)}")


@pytest.fixture
def receiver(everybody):
    with Receiver() as running:
        yield running


@pytest.fixture
def pager(stage, receiver, processes):
    """Everything in the environment is told here, as long as this test lasts; nothing of the tests before it."""
    processes.scheduler()
    until(lambda: not Transition.objects.filter(alerted_at=None).exists(), what="earlier tests are told of")
    channel, _ = stage.pager(receiver.hook)
    yield receiver
    alerts.remove_channel(channel=channel, actor="ada")


def told(receiver):
    return [body["event"] for body in receiver.bodies]


def test_probed_by_celery_until_it_closes_and_people_are_told_once(stage, processes, vendor, pager):
    vendor.routes["/search"] = vendor.routes["/reset"]
    stage.probe(f"{vendor.url}/search")
    _, worker = processes.both()
    stage.open()
    until(lambda: stage.bad_rounds >= 2, what="two failed rounds")
    vendor.routes["/search"] = vendor.routes["/ok"]
    until(lambda: stage.closed, what="it closes")
    until(lambda: "closed" in told(pager), what="the all-clear")

    assert told(pager) == ["opened", "closed"]
    assert worker.said.count("probed") >= 3
    last = stage.rounds[-1]
    assert last.due_at <= last.granted_at <= last.dispatched_at <= last.connected_at <= last.finished_at


def test_two_places_vote_on_one_round_and_one_of_them_may_be_killed(stage, processes, vendor):
    stage.policy(vantage_points=2, vantage_quorum=2, probe_timeout_s=4.0)
    stage.probe(f"{vendor.url}/ok")
    processes.both()
    far = processes.vantage("eu")
    until(lambda: places.vantages(clock.now()) == ["here", "eu"], what="both places are known")
    stage.open()
    until(lambda: stage.closed, what="both have found it good")
    assert {each.place: each.verdict for each in stage.rounds[-1].votes.all()} == {"here": "good", "eu": "good"}
    assert far.said.count("voted") == 1
    assert "probed" not in far.said

    far.kill()
    until(lambda: places.vantages(clock.now()) == ["here"], what="its silence is noticed")
    stage.open()
    until(lambda: stage.closed, what="what is left decides")
    last = stage.rounds[-1]
    assert (last.places_wanted, last.quorum, [each.place for each in last.votes.all()]) == (2, 1, ["here"])


def test_a_leader_that_loses_its_database_connection_takes_up_again(stage, processes, vendor):
    stage.probe(f"{vendor.url}/ok")
    scheduler, _ = processes.both()
    _cut_every_connection()
    stage.open()

    until(lambda: stage.closed, what="it probes all the same")
    assert scheduler.child.poll() is None
    assert "trying again" in scheduler.said


def _cut_every_connection():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()"
        )
    connection.close()
    connection.close_pool()


@pytest.fixture
def redis_back():
    yield
    if not servers.valkey.alive():
        servers.start_redis()


def test_valkey_killed_in_the_middle_of_an_outage_and_back_again(stage, processes, vendor, pager, redis_back):
    vendor.routes["/search"] = vendor.routes["/reset"]
    stage.probe(f"{vendor.url}/search")
    scheduler, worker = processes.both()
    stage.open()
    until(lambda: stage.bad_rounds, what="a failed round")

    servers.kill_redis()
    before = stage.bad_rounds
    until(lambda: stage.bad_rounds > before + 1, what="still probed")
    until(lambda: scheduler.beat.detail["broker"] == "away", what="the beat says so")
    vendor.routes["/search"] = vendor.routes["/ok"]
    until(lambda: stage.closed, what="it closes")
    until(lambda: told(pager) == ["opened", "closed"], what="people are told")
    assert stage.closings == 1

    servers.start_redis()
    vendor.routes["/search"] = vendor.routes["/reset"]
    by_celery = worker.said.count("probed")
    stage.open()
    until(lambda: stage.bad_rounds > before, what="probed without waiting for Celery to come back")
    until(lambda: worker.said.count("probed") > by_celery, 40, "Celery probes again")
    assert scheduler.beat.detail["failing"] == []
    vendor.routes["/search"] = vendor.routes["/ok"]
    until(lambda: stage.closed, what="it closes")


def test_a_killed_workers_delivery_is_sent_by_another(stage, processes, pager):
    pager.script = [hang]
    _, worker = processes.both()
    stage.open()
    until(lambda: pager.seen, what="the first attempt")
    worker.kill()
    [delivery] = AlertDelivery.objects.filter(channel__target=pager.hook)
    assert (delivery.status, delivery.attempts) == ("pending", 1)
    AlertDelivery.objects.filter(pk=delivery.pk).update(lease_expires_at=clock.now())
    processes.worker()

    until(lambda: len(pager.seen) == 2, what="the second attempt")
    until(lambda: AlertDelivery.objects.get(pk=delivery.pk).status == "sent", what="it is written down")
    assert len(pager.kept) == 1


def test_a_celery_worker_killed_in_the_middle_of_a_probe(stage, processes, vendor, pager):
    vendor.routes["/search"] = hang
    stage.probe(f"{vendor.url}/search")
    scheduler, worker = processes.both()
    stage.open()
    until(lambda: told(pager), what="people are told")
    before = vendor.count("/search")
    until(lambda: vendor.count("/search") > before, what="another probe arrives")
    worker.kill()
    vendor.routes["/search"] = vendor.routes["/ok"]
    processes.worker()

    until(lambda: stage.closed, 30, "another round closes it")
    until(lambda: "closed" in told(pager), what="the all-clear")
    verdicts = [(each.verdict, each.applied) for each in stage.rounds]
    assert ("inconclusive", False) in verdicts
    assert verdicts[-1] == ("good", True)
    assert stage.closings == 1
    assert told(pager) == ["opened", "closed"]
    assert scheduler.child.poll() is None


def test_a_scheduler_killed_while_another_stands_by(stage, processes, vendor):
    stage.probe(f"{vendor.url}/ok")
    leader, standby = processes.scheduler(0), processes.scheduler(1)
    assert (leader.beat.detail["leader"], standby.beat.detail["leader"]) == (True, False)
    leader.kill()
    stage.open()

    until(lambda: stage.closed, what="the standby probes")
    until(lambda: standby.beat.detail["leader"], what="it says so")
    began = time.monotonic()
    assert standby.end() == 0
    assert time.monotonic() - began < 2.5
    assert standby.beat is None


def test_a_scheduler_that_hangs_is_succeeded_and_leads_no_more_when_it_goes_on(stage, processes, vendor):
    stage.probe(f"{vendor.url}/ok")
    leader, standby = processes.scheduler(0), processes.scheduler(1)
    until(lambda: leader.beat.detail["leader"] and not standby.beat.detail["leader"], what="one leads")
    leader.child.send_signal(signal.SIGSTOP)
    try:
        stage.open()
        until(lambda: stage.closed, 40, what="the standby probes")
        assert "the leader hangs" in standby.said
    finally:
        leader.child.send_signal(signal.SIGCONT)
    until(lambda: leader.beat.detail["leader"] is False, what="the old leader stands by")
    until(lambda: standby.beat.detail["leader"], what="the new one says so")
    assert standby.end() == 0
    until(lambda: leader.beat.detail["leader"], what="the old one leads again")


def test_a_celery_worker_that_ends_on_purpose_takes_its_beat_back(stage, processes):
    worker = processes.worker()

    assert worker.end() == 0
    assert worker.beat is None
