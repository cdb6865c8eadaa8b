"""The probers of TCP, TLS and DNS."""

import pytest
from recloser.core.types import Verdict

from tests.workers.certificates import Made
from tests.workers.counterparts import Names, greeting, listening, silent
from tests.workers.kinds import ask, asks


async def test_a_greeting_that_lacks_what_it_must_hold_fails():
    async with listening(greeting(b"554 go away\r\n")) as port:
        found = await ask("tcp", asks("tcp", port), limit=1)

    assert found.ruling().verdict is Verdict.BAD


async def test_without_a_greeting_to_wait_for_a_connection_is_enough():
    async with listening(silent) as port:
        found = await ask("tcp", {"host": "vendor.example", "port": port})

    assert found.ruling() == (Verdict.GOOD, "passed", False)


@pytest.fixture
def made(tmp_path):
    return lambda **more: Made(tmp_path / "server.pem", **more)


async def handshake(certificate, **spec):
    async with listening(silent, certificate.server()) as port:
        return await ask("tls", asks("tls", port, **spec))


@pytest.mark.parametrize(
    ("days", "wanted", "cause"), [(40, 30, "passed"), (20, 30, "certificate"), (1, None, "passed")]
)
async def test_the_days_that_a_certificate_has_left_are_a_condition(made, monkeypatch, days, wanted, cause):
    certificate = made(days=days)
    certificate.trusted(monkeypatch)
    found = await handshake(certificate, certificate_days=wanted)

    assert found.ruling().cause == cause
    assert found.certificate_until is not None


@pytest.mark.case("P07")
async def test_p07_an_expired_certificate_is_no_connection_problem(made, monkeypatch):
    certificate = made(days=-1)
    certificate.trusted(monkeypatch)
    found = await handshake(certificate)

    assert found.ruling()[:2] == (Verdict.BAD, "certificate")
    assert "expired" in found.detail


async def test_a_certificate_of_another_name_is_refused_unless_that_name_was_meant(made, monkeypatch):
    certificate = made(name="inner.example")
    certificate.trusted(monkeypatch)

    assert (await handshake(certificate)).ruling()[:2] == (Verdict.BAD, "certificate")
    assert (await handshake(certificate, server_name="inner.example")).ruling().verdict is Verdict.GOOD


async def test_a_certificate_of_nobody_we_trust_is_named(made):
    assert (await handshake(made())).ruling()[:2] == (Verdict.BAD, "certificate")


async def test_a_server_without_tls_is_no_certificate_problem():
    async with listening(greeting(b"220 plain text here\r\n")) as port:
        found = await ask("tls", asks("tls", port), limit=2)

    assert found.ruling()[:2] == (Verdict.BAD, "connect")


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("api.example.com", {"expected": ["192.0.2.7"]}, (Verdict.GOOD, "passed")),
        ("api.example.com", {"expected": ["192.0.2.9"]}, (Verdict.BAD, "listed")),
        ("api.example.com", {"record": "MX"}, (Verdict.BAD, "answer")),
        ("nowhere.example.com", {}, (Verdict.BAD, "answer")),
        ("empty.example.com", {}, (Verdict.BAD, "answer")),
        ("broken.example.com", {}, (Verdict.BAD, "answer")),
        ("refused.example.com", {}, (Verdict.INCONCLUSIVE, "bad_request")),
        ("forged.example.com", {"expected": ["192.0.2.7"]}, (Verdict.GOOD, "passed")),
    ],
)
async def test_each_answer_of_a_name_server_has_its_verdict(name, more, expected):
    async with Names().serving() as port:
        found = await ask("dns", asks("dns", port, name=name, **more))

    assert found.ruling()[:2] == expected, found.answered()


async def test_an_answer_too_long_for_udp_is_asked_for_over_tcp():
    names = Names()
    async with names.serving() as port:
        found = await ask("dns", asks("dns", port, name="long.example.com"))

    assert found.ruling().verdict is Verdict.GOOD
    assert [over for over, _ in names.asked] == ["udp", "tcp"]


async def test_a_lost_packet_is_sent_again(monkeypatch):
    monkeypatch.setattr("workers.probers.dns.RESEND_S", 0.05)
    names = Names()
    names.lost = 1
    async with names.serving() as port:
        found = await ask("dns", asks("dns", port))

    assert found.ruling().verdict is Verdict.GOOD
