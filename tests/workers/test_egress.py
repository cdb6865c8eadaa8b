"""The guard of everything that goes out to an address somebody typed."""

import asyncio
import ipaddress

import pytest

from controlplane import egress
from controlplane.models import AllowedNetwork, AuditEntry
from controlplane.services import egress as service
from controlplane.services.errors import Refused
from tests.factories import NOON, cast
from tests.workers.conftest import LOOPBACK
from tests.workers.counterparts import Proxy, listening
from tests.workers.vendor import reply
from workers.egress import GuardedBackend, client
from workers.way_out import way_out

FORBIDDEN = [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%lo",
    "fec0::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:169.254.169.254",
    "::ffff:10.0.0.1",
    "::10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe::1",
    "5f00::1",
    "2001:db8::1",
]
PUBLIC = ["93.184.216.34", "2606:4700::1111", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"]


@pytest.mark.parametrize("address", FORBIDDEN)
def test_no_inside_address_is_reached_in_whatever_form(address):
    with pytest.raises(egress.Blocked):
        egress.checked(["93.184.216.34", address], networks=())


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_reached(address):
    assert egress.checked([address], networks=()) == [address]


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203"])
def test_an_allowed_network_covers_its_addresses_in_every_form_and_no_others(address):
    allowed = (ipaddress.ip_network("10.1.0.0/16"),)

    assert egress.checked([address], networks=allowed) == [address]
    with pytest.raises(egress.Blocked):
        egress.checked(["10.2.0.1"], networks=allowed)


P03 = [
    "http://169.254.169.254/",
    "http://[::1]:8000/",
    "http://10.1.2.3/",
    "http://2852039166/",
    "http://[::ffff:169.254.169.254]/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://localhost/",
]


@pytest.mark.django_db
@pytest.mark.case("P03")
def test_p03_every_refusal_has_the_same_words():
    said = set()
    for url in P03:
        with pytest.raises(Refused) as refusal:
            service.demand_reachable(url, field="url")
        said.add((refusal.value.code, refusal.value.message, refusal.value.mend, refusal.value.field))

    assert len(said) == 1
    assert not any(word in str(said) for word in ("private", "loopback", "metadata", "169"))


@pytest.mark.django_db
@pytest.mark.case("P03")
def test_p03_an_admin_may_allow_a_network_and_take_it_back():
    cast()
    service.allow_network(network="10.1.0.0/16", reason="the CRM lives there", actor="ada", now=NOON)
    service.demand_reachable("http://10.1.2.3/", field="url")

    service.close_network(network="10.1.0.0/16", actor="ada")

    with pytest.raises(Refused):
        service.demand_reachable("http://10.1.2.3/", field="url")
    assert set(AuditEntry.objects.values_list("action", flat=True)) == {"allow_network", "close_network"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("network", "reason", "field"),
    [("10.1.0.1/16", "why", "network"), ("nonsense", "why", "network"), ("10.1.0.0/16", " ", "reason")],
)
def test_a_network_that_makes_no_sense_is_refused_at_its_field(network, reason, field):
    with pytest.raises(Refused) as refusal:
        service.allow_network(network=network, reason=reason, actor="ada", now=NOON)

    assert refusal.value.field == field
    assert not AllowedNetwork.objects.exists()


@pytest.mark.django_db
def test_a_name_without_an_address_is_told_as_such():
    with pytest.raises(Refused) as refusal:
        service.demand_reachable("http://no-such-host.invalid/", field="url")

    assert refusal.value.code == "unresolvable"


async def test_every_look_is_checked_anew():
    looks = iter([["93.184.216.34"], ["127.0.0.1"]])

    async def rebinding(host, port):
        return next(looks)

    assert await egress.resolve_allowed("api.example.com", 80, networks=(), resolve=rebinding) == ["93.184.216.34"]
    with pytest.raises(egress.Blocked):
        await egress.resolve_allowed("api.example.com", 80, networks=(), resolve=rebinding)


async def test_a_webhook_goes_through_the_proxy_to_the_address_that_was_checked(vendor):
    """`way_out` is what every task sends with; the proxy is given an address, the receiver its own name."""
    proxy = Proxy()
    vendor.routes["/hook"] = reply(204)

    async def loopback(host, port):
        return ["127.0.0.1"]

    async with listening(proxy.handle) as port:
        backend = GuardedBackend(LOOPBACK, loopback, f"http://127.0.0.1:{port}")
        async with client(backend, time_limit_s=5, user_agent="Recloser-Webhook") as http:
            answer = await http.post(f"http://hooks.example:{vendor.port}/hook", content=b"{}")

    assert answer.status_code == 204
    assert proxy.targets == [f"127.0.0.1:{vendor.port}"]
    assert vendor.seen[0].headers["host"] == f"hooks.example:{vendor.port}"


def test_the_tasks_way_out_is_the_one_that_is_set(settings):
    assert way_out(()).proxy is None
    settings.EGRESS_PROXY = "https://ann:pass@proxy.example.com"

    assert (way_out(()).proxy.host, way_out(()).proxy.port, way_out(()).proxy.tls) == ("proxy.example.com", 443, True)


@pytest.mark.parametrize(("host", "address"), [("127.0.0.1", "127.0.0.1"), ("2001:DB8::1", "2001:db8::1")])
def test_a_plain_address_needs_no_look_up(monkeypatch, host, address):
    monkeypatch.setattr(egress.background, "in_thread", lambda work: pytest.fail("a thread was started"))

    assert asyncio.run(egress.look_up(host, 443)) == [address]
