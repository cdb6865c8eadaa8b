"""The Redis prober against a real Valkey."""

import os

import pytest
import redis
from recloser.core.types import Verdict

from controlplane import probe_spec
from tests.workers import counterparts
from tests.workers.counterparts import listening, to_socket
from tests.workers.kinds import ask, asks


@pytest.fixture(autouse=True)
def valkey():
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as server:
        server.set("probed:text", "all is well")
        server.rpush("probed:list", "one")
        server.acl_setuser(
            "probed", enabled=True, passwords=["+s3cret-word"], commands=["+get", "+select"], keys=["probed:*"]
        )
        yield server
        server.acl_deluser("probed")
        server.delete("probed:text", "probed:list")


async def command(name, secrets=None, **more):
    async with listening(to_socket(counterparts.valkey_socket())) as port:
        return await ask("redis", asks("redis", port, command=name, **more), secrets=secrets)


def holds(value):
    return {"kind": "contains", "value": value}


ONE = {"kind": "json_equals", "path": "$", "value": 1}


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("PING", {"body_condition": holds("PONG")}, (Verdict.GOOD, "passed")),
        ("GET", {"key": "probed:text", "body_condition": holds("well")}, (Verdict.GOOD, "passed")),
        ("GET", {"key": "probed:absent", "body_condition": holds("x")}, (Verdict.BAD, "body")),
        ("LLEN", {"key": "probed:list", "body_condition": ONE}, (Verdict.GOOD, "passed")),
        ("GET", {"key": "probed:list"}, (Verdict.INCONCLUSIVE, "bad_request")),
        ("PING", {"database": 9999}, (Verdict.INCONCLUSIVE, "bad_request")),
    ],
)  # fmt: skip
async def test_each_answer_has_its_verdict(name, more, expected):
    found = await command(name, **more)

    assert found.ruling()[:2] == expected, found.answered()


async def test_it_signs_in_and_a_wrong_password_is_the_probes_own_fault():
    right = await command("GET", {"password": "s3cret-word"}, user="probed", key="probed:text")
    wrong = await command("GET", {"password": "no-such-word"}, user="probed", key="probed:text")
    forbidden = await command("PING", {"password": "s3cret-word"}, user="probed")

    assert right.ruling() == (Verdict.GOOD, "passed", False)
    assert wrong.ruling() == forbidden.ruling() == (Verdict.INCONCLUSIVE, "credentials", True)
    assert "s3cret" not in str([right.asked, right.answered()])


@pytest.mark.parametrize(
    ("more", "field"),
    [({"command": "FLUSHALL"}, "command"), ({"command": "GET"}, "key"), ({"key": "x"}, "key"),
     ({"certificate_days": 3}, "certificate_days")],
)  # fmt: skip
def test_what_changes_something_or_makes_no_sense_is_refused(more, field):
    with pytest.raises(probe_spec.BadSpec) as bad:
        probe_spec.read(asks("redis", 6379, **more), "redis")

    assert bad.value.field == field
