"""The HTTP prober against a vendor that misbehaves in every way it can."""

import asyncio
import datetime
import ipaddress
import json
import ssl
import time
import tracemalloc

import pytest
from recloser.core.types import Verdict

from controlplane import egress
from controlplane.probe_spec import read
from tests.workers.conftest import LOOPBACK
from tests.workers.vendor import Vendor, bomb, reply
from workers import probers
from workers.egress import GuardedBackend

SECRET = "Bearer never-to-be-seen-again"


async def probe(vendor, path, *, secrets=None, networks=LOOPBACK, resolve=egress.look_up, limit=2.0, **spec):
    url = path if "://" in path else vendor.url + path
    backend = GuardedBackend(networks, resolve)
    return await probers.ask(read({"url": url, **spec}), secrets or {}, backend, time_limit_s=limit)


async def verdict(vendor, path, **spec):
    found = await probe(vendor, path, **spec)
    return found.ruling()[:2]


async def test_a_healthy_answer_is_good_and_tells_what_was_asked(vendor):
    found = await probe(vendor, "/ok?key=x", body_condition={"kind": "contains", "value": "results"}, latency_ms=2000)

    assert found.ruling().verdict is Verdict.GOOD
    assert found.asked == {"method": "GET", "address": f"{vendor.url}/ok", "headers": {}, "body_bytes": 0}
    assert [each["name"] for each in found.conditions] == ["status", "body", "latency"]
    assert found.connected_at is not None
    assert vendor.seen[0].headers["user-agent"].startswith("Recloser-Probe/")
    assert vendor.seen[0].headers["host"] == f"127.0.0.1:{vendor.port}"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/bad", (Verdict.INCONCLUSIVE, "bad_request")),
        ("/nowhere", (Verdict.INCONCLUSIVE, "bad_request")),
        ("/down", (Verdict.BAD, "status")),
        ("/moved", (Verdict.BAD, "status")),
        ("/reset", (Verdict.BAD, "broken_answer")),
        ("/cut", (Verdict.BAD, "broken_answer")),
        ("/nonsense", (Verdict.BAD, "broken_answer")),
        ("/brotli", (Verdict.BAD, "broken_answer")),
        ("/gzip", (Verdict.GOOD, "passed")),
    ],
)
async def test_each_answer_has_its_verdict(vendor, path, expected):
    assert await verdict(vendor, path) == expected


@pytest.mark.parametrize("path", ["/hang", "/drip"])
async def test_silence_and_a_slow_drip_end_at_the_time_limit(vendor, path):
    began = time.monotonic()

    assert await verdict(vendor, path, limit=0.4) == (Verdict.BAD, "timeout")
    assert time.monotonic() - began < 2


async def test_a_port_where_nobody_listens_is_named_as_no_connection(vendor):
    with Vendor() as other:
        gone = other.url
    assert await verdict(vendor, gone + "/") == (Verdict.BAD, "connect")


async def test_an_answer_that_is_too_slow_fails_by_its_latency_alone(vendor):
    async def after_a_while(seen, writer):
        await asyncio.sleep(0.03)
        await reply(200)(seen, writer)

    vendor.routes["/slow"] = after_a_while
    found = await probe(vendor, "/slow", latency_ms=10)

    assert found.ruling()[:2] == (Verdict.BAD, "latency")
    assert [each["held"] for each in found.conditions] == [True, False]


@pytest.mark.parametrize(
    ("condition", "held"),
    [
        ({"kind": "contains", "value": "results"}, True),
        ({"kind": "contains", "value": "suspended"}, False),
        ({"kind": "json_equals", "path": "$.results[0].ok", "value": True}, True),
        ({"kind": "json_equals", "path": "$.results[0].ok", "value": 1}, False),
        ({"kind": "json_equals", "path": "$.results[0].n", "value": 3}, True),
        ({"kind": "json_equals", "path": "$.results[4].n", "value": 3}, False),
    ],
)
async def test_the_body_is_held_against_its_condition(vendor, condition, held):
    found = await probe(vendor, "/ok", body_condition=condition)

    assert (found.ruling().cause == "passed") is held


async def test_deep_and_malformed_json_fails_the_condition_and_nothing_else(vendor):
    vendor.routes["/deep"] = reply(200, "[" * 200_000)

    condition = {"kind": "json_equals", "path": "$.a", "value": 1}
    assert await verdict(vendor, "/deep", body_condition=condition) == (Verdict.BAD, "body")


async def test_a_compressed_bomb_and_an_endless_answer_are_read_no_further_than_the_cap(vendor):
    vendor.routes["/bomb"] = reply(200, bomb(), Content_Encoding="gzip")
    tracemalloc.start()
    try:
        assert (await verdict(vendor, "/bomb", body_condition={"kind": "contains", "value": "results"}))[0] == "good"
        assert (await verdict(vendor, "/endless"))[0] == "good"
        assert tracemalloc.get_traced_memory()[1] < 20 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("path", "wait"), [("/down", 7.0), ("/later", 90.0), ("/ok", None)])
async def test_the_wait_that_a_server_asks_for_is_passed_on(vendor, path, wait):
    assert (await probe(vendor, path)).retry_after_s == wait


@pytest.mark.case("P01")
async def test_p01_a_redirect_to_a_page_without_the_marker_fails_and_is_told_apart(vendor):
    marker = {"kind": "contains", "value": "results"}
    found = await probe(vendor, "/moved", redirects="any", body_condition=marker, secrets={"Authorization": SECRET})

    assert found.ruling()[:2] == (Verdict.BAD, "body")
    assert (found.first_status, found.status) == (302, 200)
    assert found.address == f"{vendor.url}/suspended"
    assert vendor.seen[1].headers["authorization"] == SECRET


@pytest.mark.case("P01")
async def test_p01_a_redirect_to_another_host_never_carries_the_secret(vendor):
    with Vendor() as elsewhere:
        vendor.routes["/away"] = reply(307, "", Location=f"{elsewhere.url}/ok")
        found = await probe(
            vendor, "/away", redirects="any", headers={"X-Team": "search"}, secrets={"Authorization": SECRET}
        )

        assert found.ruling().verdict is Verdict.GOOD
        assert elsewhere.seen[0].path == "/ok"
        assert "authorization" not in elsewhere.seen[0].headers
        assert "x-team" not in elsewhere.seen[0].headers


async def test_a_body_is_never_carried_to_another_host(vendor):
    with Vendor() as elsewhere:
        vendor.routes["/away"] = reply(307, "", Location=f"{elsewhere.url}/ok")
        outcome = await verdict(vendor, "/away", method="POST", body="q=secret", redirects="any")

        assert outcome == (Verdict.BAD, "refused_redirect")
        assert elsewhere.seen == []


@pytest.mark.parametrize(
    ("path", "rule", "expected"),
    [
        ("/circle", "any", (Verdict.BAD, "refused_redirect")),
        ("/file", "any", (Verdict.BAD, "refused_redirect")),
        ("/inside", "same_host", (Verdict.BAD, "refused_redirect")),
        ("/inside", "any", (Verdict.INCONCLUSIVE, "refused_address")),
    ],
)
async def test_redirects_that_lead_astray(vendor, path, rule, expected):
    assert await verdict(vendor, path, redirects=rule) == expected


async def test_dns_rebinding_the_second_look_is_private_and_is_refused(vendor):
    """The form's look saw a public address; the probe's own look is the one that counts."""
    looks = iter([["93.184.216.34"], ["10.1.2.3"]])

    async def rebinding(host, port):
        return next(looks)

    await egress.resolve_allowed("api.example.com", 443, networks=(), resolve=rebinding)
    found = await probe(vendor, "https://api.example.com/", networks=(), resolve=rebinding)

    assert found.ruling() == (Verdict.INCONCLUSIVE, "refused_address", True)
    assert found.connected_at is None


async def test_one_forbidden_address_among_public_ones_refuses_the_name(vendor):
    async def mixed(host, port):
        return ["93.184.216.34", "::ffff:169.254.169.254"]

    assert (await verdict(vendor, "http://api.example.com/", networks=(), resolve=mixed))[1] == "refused_address"


async def test_the_checked_address_is_the_one_connected_to_and_the_name_is_kept(vendor):
    async def one_look(host, port):
        assert host == "api.example.com"
        return ["127.0.0.1"]

    found = await probe(vendor, f"http://api.example.com:{vendor.port}/ok", resolve=one_look)

    assert found.ruling().verdict is Verdict.GOOD
    assert vendor.seen[0].headers["host"] == f"api.example.com:{vendor.port}"


async def test_a_name_that_does_not_resolve_is_told_as_such(vendor):
    assert await verdict(vendor, "http://no-such-host.invalid/") == (Verdict.BAD, "resolve")


async def test_a_certificate_of_nobody_we_trust_is_named(vendor, certificate):
    with Vendor(tls=certificate()) as secure:
        found = await probe(secure, "/ok")

    assert found.ruling()[:2] == (Verdict.BAD, "certificate")
    assert "self-signed" in found.detail
    assert secure.seen == []


async def test_p07_an_expired_certificate_is_no_connection_problem(vendor, certificate, monkeypatch):
    trusting, server = ssl.create_default_context(), certificate(days=-1)
    trusting.load_verify_locations(cadata=certificate.pem)
    monkeypatch.setattr("workers.egress.tls_context", lambda *protocols: trusting)

    with Vendor(tls=server) as secure:
        found = await probe(secure, "/ok")

    assert found.ruling()[:2] == (Verdict.BAD, "certificate")
    assert "expired" in found.detail


async def test_a_trusted_certificate_is_checked_against_the_name_not_the_address(vendor, certificate, monkeypatch):
    trusting, server = ssl.create_default_context(), certificate()
    trusting.load_verify_locations(cadata=certificate.pem)
    monkeypatch.setattr("workers.egress.tls_context", lambda *protocols: trusting)

    async def loopback(host, port):
        return ["127.0.0.1"]

    with Vendor(tls=server) as secure:
        right = await probe(secure, f"https://vendor.example:{secure.port}/ok", resolve=loopback)
        wrong = await probe(secure, f"https://other.example:{secure.port}/ok", resolve=loopback)

    assert right.ruling().verdict is Verdict.GOOD
    assert wrong.ruling().cause == "certificate"


async def test_secrets_that_a_vendor_sends_back_are_in_no_finding(vendor):
    vendor.routes["/leak"] = reply(302, "", Location=f"/echo/{SECRET.replace(' ', '%20')}?t={SECRET}")
    secrets = {"Authorization": SECRET, "X-Key": "k-123456"}
    condition = {"kind": "json_equals", "path": "$.headers.x-key", "value": "k-123456"}
    found = await probe(vendor, "/echo", secrets=secrets, body_condition=condition, headers={"X-Note": "k-123456"})
    leaked = await probe(vendor, "/leak", secrets=secrets, redirects="any")

    kept = json.dumps([found.asked, found.answered(), leaked.asked, leaked.answered()])
    assert found.ruling().verdict is Verdict.GOOD
    assert "never-to-be-seen" not in kept
    assert "k-123456" not in kept


@pytest.fixture
def certificate(tmp_path):
    """Makes a self-signed certificate for vendor.example and 127.0.0.1; `.pem` is its text."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def make(days: int = 30) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "vendor.example")])
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
        names = [x509.DNSName("vendor.example"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(until - datetime.timedelta(days=60))
            .not_valid_after(until)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        make.pem = made.public_bytes(serialization.Encoding.PEM).decode()
        plain = (serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
        path = tmp_path / "server.pem"
        path.write_text(make.pem + key.private_bytes(serialization.Encoding.PEM, *plain).decode())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    return make


@pytest.mark.parametrize(
    ("wanted", "held"),
    [
        ({"name": "Retry-After"}, True),
        ({"name": "retry-after", "contains": "7"}, True),
        ({"name": "Retry-After", "contains": "8"}, False),
        ({"name": "X-Absent"}, False),
    ],
)
async def test_a_header_is_held_against_its_condition(vendor, wanted, held):
    found = await probe(vendor, "/down", expected_status="503", header_condition=wanted)

    assert (found.ruling().cause == "passed") is held


@pytest.mark.parametrize(("days", "cause"), [(40, "certificate"), (20, "passed")])
async def test_the_days_that_a_certificate_has_left_are_a_condition(vendor, certificate, monkeypatch, days, cause):
    trusting, server = ssl.create_default_context(), certificate(days=30)
    trusting.load_verify_locations(cadata=certificate.pem)
    monkeypatch.setattr("workers.egress.tls_context", lambda *protocols: trusting)

    with Vendor(tls=server) as secure:
        found = await probe(secure, "/ok", certificate_days=days)

    assert found.ruling().cause == cause
