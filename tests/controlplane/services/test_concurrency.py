"""However many look at once, one of them opens the circuit."""

import os
import subprocess
import sys

import pytest
from django.db import connection

from controlplane import clock
from controlplane.evidence import store
from controlplane.models import Circuit, DocumentVersion, Outage, Transition, Trip
from controlplane.services import circuits, policies
from tests import factories
from tests.controlplane.evidence.batches import observe
from tests.crowd import at_once

pytestmark = pytest.mark.django_db(transaction=True)

CROWD = 50


@pytest.fixture
def breached():
    """Real time, and a window that breaches a policy without settling."""
    store.forget()
    cast = factories.cast(at=clock.now())
    policies.publish(
        environment=cast.prod,
        level="dependency",
        dependency=cast.search_api,
        values={"settle_s": 0},
        reason="for the test",
        actor="petra",
        now=clock.now(),
    )
    for session in cast.sessions[:2]:
        observe(session, cast.search_api, failures=10)
    return cast


def _one_of_everything(cast, version):
    row = Circuit.objects.get(dependency=cast.search_api)
    assert (row.state, row.generation) == ("open", 1)
    assert (Transition.objects.count(), Trip.objects.count(), Outage.objects.count()) == (1, 1, 1)
    assert DocumentVersion.objects.get(environment=cast.prod).circuits == version + 1


def test_fifty_considerations_at_once_make_one_transition_one_trip_one_outage(breached):
    version = DocumentVersion.objects.get(environment=breached.prod).circuits

    results = at_once(lambda: circuits.consider(dependency_id=breached.search_api.pk, now=clock.now()), CROWD)

    assert sum(result.opened for result in results) == 1
    _one_of_everything(breached, version)


def test_fifty_failing_batches_counted_and_considered_at_once_make_one_outage(breached):
    version = DocumentVersion.objects.get(environment=breached.prod).circuits

    def batch():
        observe(breached.sessions[2], breached.search_api, failures=1)
        return circuits.consider(dependency_id=breached.search_api.pk, now=clock.now())

    assert sum(result.opened for result in at_once(batch, CROWD)) == 1
    _one_of_everything(breached, version)


SECOND_PROCESS = """
import sys, threading, django
django.setup()
from django.db import connection
from controlplane import clock
from controlplane.services import circuits

opened = []

def consider():
    opened.append(circuits.consider(dependency_id=int(sys.argv[1]), now=clock.now()).opened)
    connection.close()

print("ready", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=consider) for _ in range(25)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(opened) == 25
print(sum(opened))
"""


@pytest.mark.e2e
def test_two_processes_of_twenty_five_threads_open_it_once(breached):
    version = DocumentVersion.objects.get(environment=breached.prod).circuits
    base, _, query = os.environ["DATABASE_URL"].partition("?")
    url = f"{base.rsplit('/', 1)[0]}/{connection.settings_dict['NAME']}?{query}"
    environ = os.environ | {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "controlplane.settings"}
    command = [sys.executable, "-c", SECOND_PROCESS, str(breached.search_api.pk)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env=environ, **pipes) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()

    answers = [process.communicate(timeout=60)[0] for process in processes]

    assert sum(int(answer) for answer in answers) == 1
    _one_of_everything(breached, version)


def test_two_claimers_never_get_the_same_round(breached):
    from controlplane.models import Probe

    Probe.objects.create(
        dependency=breached.search_api, operation="web_search", spec={}, updated_at=clock.now(), updated_by="petra"
    )
    circuits.consider(dependency_id=breached.search_api.pk, now=clock.now())
    circuits.probe_now(dependency_id=breached.search_api.pk, actor="otto", now=clock.now())

    claimed = at_once(lambda: circuits.claim_rounds(now=clock.now()), times=8)

    assert sum(len(rounds) for rounds in claimed) == 1


def test_the_same_order_sent_eight_times_at_once_is_carried_out_once(breached):
    def order():
        return circuits.force_close(
            dependency_id=breached.search_api.pk, actor="otto", reason="mended", now=clock.now(), token="t-1"
        )

    at_once(order, times=8)

    assert Transition.objects.count() == 1
