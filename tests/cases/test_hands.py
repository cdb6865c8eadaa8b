"""Cases of what people do: over HTTP, on a real server, and twice at the same moment."""

from __future__ import annotations

import re
import threading
import uuid

import httpx
import pytest
from django.test import Client as Browser

from controlplane import clock
from controlplane.models import AlertChannel, AlertDelivery, AuditEntry, Probe, ProbeTest, Transition
from controlplane.services import alerts, egress, policies, probes
from controlplane.services.errors import Refused
from tests.dashboard import stage

INSIDE = (
    "http://169.254.169.254/", "http://[::1]:8000/", "http://10.1.2.3/", "http://2852039166/",
    "http://[::ffff:169.254.169.254]/",
)  # fmt: skip


@pytest.fixture
def tab(server):
    """`tab(person)`: an HTTP client that has signed in."""
    opened = []

    def sign_in(person):
        browser = Browser()
        browser.force_login(person, backend="controlplane.permissions.RoleBackend")
        cookies = {"sessionid": browser.cookies["sessionid"].value}
        opened.append(httpx.Client(base_url=server.url, cookies=cookies, timeout=30))
        return opened[-1]

    yield sign_in
    for client in opened:
        client.close()


def at_once(*deeds):
    """Do all of them in the same moment; what each returned, in order."""
    barrier, results = threading.Barrier(len(deeds)), [None] * len(deeds)

    def do(place, deed):
        barrier.wait(10)
        results[place] = deed()

    threads = [threading.Thread(target=do, args=each) for each in enumerate(deeds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results


@pytest.mark.case("D03")
def test_two_posts_of_one_form_in_the_same_moment_are_one_deed(fleet, tab):
    egress.allow_network(network="127.0.0.0/8", reason="the pager", actor="ada", now=clock.now())
    alerts.save_channel(environment=fleet.prod, kind="webhook", name="pager", target="http://127.0.0.1:9/hook",
                        actor="ada", now=clock.now())  # fmt: skip
    stage.opened(fleet.search_api, clock.now())
    alerts.dispatch_due_transitions(now=clock.now(), limit=100)
    transitions, address = Transition.objects.count(), "/circuits/prod/search-api/force-close/"
    otto = tab(fleet.otto)
    headers = {"HX-Request": "true", "HX-Current-URL": f"{otto.base_url}/"}
    sheet = otto.get(address, headers=headers).text
    form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', sheet))
    assert uuid.UUID(form["token"]), sheet
    form["reason"] = "the vendor is back"

    first, second = at_once(*[lambda: otto.post(address, data=form, headers=headers)] * 2)

    assert (first.status_code, second.status_code) == (200, 200), first.text + second.text
    assert first.text == second.text
    assert Transition.objects.count() == transitions + 1
    assert AuditEntry.objects.filter(action="force_close", target="search-api").count() == 1
    alerts.dispatch_due_transitions(now=clock.now(), limit=100)
    assert sorted(AlertDelivery.objects.values_list("event", flat=True)) == ["closed", "opened"]


@pytest.mark.case("P03")
def test_no_probe_no_try_out_and_no_webhook_leads_inside_and_all_are_refused_in_the_same_words(cast):
    spec = {"dependency": cast.search_api, "actor": "petra", "now": clock.now()}
    hook = {"environment": cast.prod, "kind": "webhook", "name": "pager", "actor": "ada", "now": clock.now()}
    said = set()
    for url in INSIDE:
        for attempt in (
            lambda url=url: probes.save_probe(operation="search", spec={"url": url}, **spec),
            lambda url=url: probes.test_now(spec={"url": url}, **spec),
            lambda url=url: alerts.save_channel(target=url, **hook),
        ):
            with pytest.raises(Refused) as refusal:
                attempt()
            said.add((refusal.value.code, refusal.value.message, refusal.value.mend))

    assert len(said) == 1
    assert not Probe.objects.exists() and not ProbeTest.objects.exists() and not AlertChannel.objects.exists()


@pytest.mark.case("G01")
def test_only_an_explicit_never_open_exempts_a_tool_and_its_page_says_so(cast, page):
    """Neither tool has a fallback; what a run then does is proved in sdk/tests."""
    policies.publish(
        environment=cast.prod, level="tool", tool=cast.tools["web_search"], values={"never_open": True},
        reason="the last resort", actor="petra", approved_by="ada", now=clock.now(),
    )  # fmt: skip

    assert "never withdrawn" in page(cast.ann, "/tools/prod/web_search/")
    assert "never withdrawn" not in page(cast.ann, "/tools/prod/db_lookup/")
