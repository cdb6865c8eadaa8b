"""The control plane goes away, comes back, or is seen through something that stands in between."""

from __future__ import annotations

import datetime
import random
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import FAST, failing, until, working
from recloser import Client, Pace
from recloser.link import BackOff
from recloser.testing import KEY, FakeControlPlane, error
from relays import ForwardProxy, HoldingProxy

SCALE = 50.0
"""Seconds of the case in one second of the test."""


def scaled(**more: float) -> Pace:
    """The usual pace, so many times faster."""
    usual = {name: getattr(Pace(), name) / SCALE for name in Pace.__slots__}
    return Pace(**(usual | more))


@pytest.mark.case("C05")
def test_a_proxy_that_holds_the_stream_back_leaves_the_agent_polling_and_current(plane):
    """C05: it holds anything under 4 KiB and cuts after 30 s; the policy changes at 100 s, and is in use by 160 s."""
    with HoldingProxy(plane.port, cut_after_s=30.0 / SCALE) as proxy:
        client = Client(f"http://127.0.0.1:{proxy.port}", plane.key, cache_dir=False, pace=scaled())
        try:
            assert until(lambda: client.status()["config"]["version"] == ["e1", 7])
            began = time.monotonic()
            assert until(lambda: len(plane.asked("stream")) >= 2, 10.0)  # silent for 25 s, it was given up
            while time.monotonic() - began < 100.0 / SCALE:
                assert client.status()["feed"] == "polling"
                time.sleep(0.02)
            plane.publish_config()
            plane.set_circuit("web_search", state="open", cause="failure_rate")
            assert until(lambda: client.status()["config"]["version"] == ["e1", 8], 60.0 / SCALE)
            assert until(lambda: "web_search" in client.status()["circuits"]["not_closed"], 60.0 / SCALE)
            assert client.status()["feed"] == "polling"
            assert client.status()["config"]["stale_since"] is None
        finally:
            client.close(0.2)


def test_what_a_proxy_lets_through_in_one_burst_is_old_news_and_no_live_feed(plane):
    with HoldingProxy(plane.port, cut_after_s=30.0) as proxy:
        pace = scaled(held_back_s=0.3, silence_s=60.0, poll_live_s=60.0)
        client = Client(f"http://127.0.0.1:{proxy.port}", plane.key, cache_dir=False, pace=pace)
        try:
            assert until(lambda: client.status()["circuits"]["version"] == ["e1", 1])
            assert plane.wait(lambda: plane.streams)
            time.sleep(0.4)  # what was said at connect is held back for so long
            seen = set()
            plane.send_raw(b": hb" + b" " * 5000 + b"\n\n")
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                seen.add(client.status()["feed"])
                time.sleep(0.005)
            assert "polling" in seen
            plane.set_circuit("web_search", state="open", cause="failure_rate")
            assert until(lambda: "web_search" in client.status()["circuits"]["not_closed"], 5.0)
        finally:
            client.close(0.2)


def test_while_postgres_is_away_everything_is_kept_and_merged(plane, connect):
    away = [error(503, "unavailable", retry_after=0.01) for _ in range(6)]
    for route in ("batch", "config", "circuits"):
        plane.script(route, *away)
    client = connect()
    for _ in range(10):
        with client.run() as run:
            for k in range(10):
                run.call("web_search", {"k": k}, working)
            run.call("web_search", {"k": -1}, failing)
    assert client.flush(10)
    assert plane.counts("web_search") == {"ok": 100, "retryable_error": 10}
    assert until(lambda: client.status()["config"]["version"] == ["e1", 7])
    assert client.status()["outbox"]["dropped"] == 0
    assert len({one["id"] for one in plane.stored("runs")}) == 10


def test_status_says_all_that_an_operator_asks(plane, connect):
    client = connect()
    assert until(lambda: client.status()["feed"] == "live")
    plane.set_circuit("web_search", state="open", cause="failure_rate")
    assert until(lambda: "web_search" in client.status()["circuits"]["not_closed"])
    with client.run() as run:
        run.call("mail", {}, working)
    assert client.flush(5)
    healthy = client.status()
    assert healthy["mode"] == "connected" and healthy["local_because"] is None and healthy["problem"] is None
    assert healthy["config"]["version"] == ["e1", 7] and healthy["config"]["stale_since"] is None
    assert healthy["circuits"]["version"] == ["e1", 2] and healthy["circuits"]["age_s"] < 5
    assert healthy["circuits"]["not_closed"]["web_search"]["effective"] == "open"
    outbox = healthy["outbox"]
    assert outbox["waiting"] == outbox["dropped"] == 0 and outbox["acknowledged_s_ago"] < 5 and outbox["flush_s"] == 0.2

    plane.__exit__()
    client.run().call("mail", {}, working)
    assert until(lambda: client.status()["config"]["stale_since"] and client.status()["circuits"]["stale_since"], 40.0)
    lost = client.status()
    assert lost["feed"] == "polling" and "no answer" in lost["problem"] and lost["outbox"]["waiting"] > 0
    assert lost["config"]["version"] == ["e1", 7]  # what it runs on
    client.close(0.1)
    alone = Client(cache_dir=False)
    assert alone.status()["mode"] == "local" and "RECLOSER_URL" in alone.status()["local_because"]


@pytest.mark.case("C04")
def test_two_thousand_agents_that_lose_the_stream_at_once_come_back_apart():
    """C04 by the link's own numbers: the stream ends at 0 s, the server is back at 5 s; each then asks for both
    documents once, and no second carries more than a tenth of anything."""
    random.seed(4)
    pace, tries, fetches, connected = Pace(), Counter[int](), Counter[int](), []
    for _ in range(2000):
        back_off, at = BackOff(pace.stream_base_s, pace.stream_cap_s), 0.0
        while True:
            at += back_off.next()
            tries[int(at)] += 1
            if at >= 5.0:
                break
        connected.append(at)
        polled = random.uniform(0.0, pace.poll_config_s)
        fetches[int(polled if polled >= 5.0 else polled + random.uniform(0.8, 1.2) * pace.poll_config_s)] += 1
    assert max(tries.values()) <= 200 and max(fetches.values()) <= 200
    assert max(connected) <= 60.0
    assert sum(fetches.values()) == 2000


# -- proxies and certificates


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForwardProxy]:
    with ForwardProxy() as proxy:
        address = f"http://dana:p%40ss@127.0.0.1:{proxy.port}"
        monkeypatch.setenv("HTTP_PROXY", address)
        monkeypatch.setenv("HTTPS_PROXY", address)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("REQUEST_METHOD", raising=False)
        yield proxy


def work(client: Client, plane: FakeControlPlane) -> None:
    with client.run() as run:
        run.call("web_search", {}, working)
    assert client.flush(5)
    assert plane.counts("web_search") == {"ok": 1}
    assert until(lambda: client.status()["feed"] == "live")


def test_the_proxy_that_the_environment_names_is_used(plane, connect, proxied):
    work(connect(), plane)
    assert proxied.heads and all(b"http://127.0.0.1:" in head.split(b"\r\n")[0] for head in proxied.heads)
    assert b"Proxy-Authorization: Basic ZGFuYTpwQHNz" in proxied.heads[0]


def test_no_proxy_is_honoured(plane, connect, proxied, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "example.org,127.0.0.1")
    work(connect(), plane)
    assert proxied.heads == []


@pytest.mark.parametrize("address", ["socks5://127.0.0.1:1080", "http://127.0.0.1:port", "https://127.0.0.1:1"])
def test_a_proxy_that_cannot_be_used_is_said(plane, monkeypatch, address):
    monkeypatch.setenv("http_proxy", address)
    monkeypatch.setenv("no_proxy", "")
    client = Client(plane.url, KEY, cache_dir=False)
    assert "proxy" in client.status()["local_because"]
    assert client.run().call("web_search", {}, working) == "found"


@pytest.fixture
def certified(plane: FakeControlPlane, tmp_path: Path) -> Path:
    """The plane behind TLS, under an authority made for this test; the authority's certificate."""
    authority, chain = certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    plane._server.socket = context.wrap_socket(plane._server.socket, server_side=True, do_handshake_on_connect=False)
    return authority


def test_an_authority_of_ones_own_is_trusted_by_the_usual_variable(plane, connect, certified, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certified))
    client = Client(f"https://localhost:{plane.port}", plane.key, cache_dir=False, pace=FAST)
    try:
        work(client, plane)
        plane.set_circuit("web_search", state="open", cause="failure_rate")
        assert until(lambda: "web_search" in client.status()["circuits"]["not_closed"])
    finally:
        client.close(0.5)


def test_through_a_tunnel_the_certificate_is_still_the_control_planes(plane, certified, proxied, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certified))
    client = Client(f"https://localhost:{plane.port}", plane.key, cache_dir=False, pace=FAST)
    try:
        work(client, plane)
        assert proxied.heads
        assert all(head.startswith(b"CONNECT localhost:") for head in proxied.heads)
        assert b"Bearer" not in b"".join(proxied.heads)
    finally:
        client.close(0.5)


@pytest.mark.parametrize("trusted", [False, True], ids=["unknown authority", "another name"])
def test_a_certificate_that_does_not_fit_gets_no_key(plane, certified, monkeypatch, trusted):
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certified))
    host = "127.0.0.1" if trusted else "localhost"
    client = Client(f"https://{host}:{plane.port}", plane.key, cache_dir=False, pace=FAST)
    try:
        assert until(lambda: "ertificate" in (client.status()["problem"] or ""))
        assert client.run().call("web_search", {}, working) == "found"
        assert plane.requests == []
    finally:
        client.close(0.1)


def certificates(folder: Path) -> tuple[Path, Path]:
    """An authority, and a certificate of `localhost` with its key, under it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    def built(name: str, key: Any, signer: Any, *extensions: x509.ExtensionType) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named("authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(signer, hashes.SHA256())

    signer, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    sign_only = dict.fromkeys(
        ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
         "crl_sign", "encipher_only", "decipher_only"), False,
    )  # fmt: skip
    usage = x509.KeyUsage(key_cert_sign=True, **sign_only)
    authority = built("authority", signer, signer, x509.BasicConstraints(ca=True, path_length=None), usage)
    own = built("localhost", key, signer, x509.SubjectAlternativeName([x509.DNSName("localhost")]))
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    trusted, chain = folder / "authority.pem", folder / "localhost.pem"
    trusted.write_bytes(authority.public_bytes(pem))
    chain.write_bytes(own.public_bytes(pem) + private)
    return trusted, chain
