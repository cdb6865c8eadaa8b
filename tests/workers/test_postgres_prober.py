"""The PostgreSQL prober against a real server: what reads is answered, what writes is refused."""

import os

import psycopg
import pytest
from recloser.core.types import Verdict

from controlplane import probe_spec
from tests.workers import counterparts
from tests.workers.counterparts import listening, to_socket
from tests.workers.kinds import ask, asks


@pytest.fixture(scope="module", autouse=True)
def table():
    """A table that nobody may change, and a function that would."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as server:
        server.execute("DROP TABLE IF EXISTS probed; CREATE TABLE probed (n int); INSERT INTO probed VALUES (1)")
        server.execute(
            "CREATE OR REPLACE FUNCTION bump() RETURNS int LANGUAGE sql AS 'UPDATE probed SET n = n + 1 RETURNING n'"
        )
        yield
        server.execute("DROP FUNCTION bump(); DROP TABLE probed")


async def select(statement, limit=5.0, **more):
    async with listening(to_socket(counterparts.postgres_socket())) as port:
        return await ask("postgres", asks("postgres", port, statement=statement, **more), limit=limit)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT n FROM probed",
        "WITH one AS (SELECT n FROM probed) SELECT n FROM one -- that is all",
        "VALUES (1)",
        "TABLE probed",
        "SELECT 'a;b' AS \"x;y\", n FROM probed /* ; */",
        'SELECT count(n) AS "delete" FROM/**/probed',
        "SELECT pg_is_in_recovery() AS replica, 1 AS n",
    ],
)
async def test_what_reads_is_answered(statement):
    assert (await select(statement)).ruling() == (Verdict.GOOD, "passed", False)


async def test_the_first_row_is_held_against_its_condition():
    condition = {"kind": "json_equals", "path": "$.n", "value": 1}
    assert (await select("SELECT n FROM probed", body_condition=condition)).ruling().verdict is Verdict.GOOD
    assert (await select("SELECT 2 AS n", body_condition=condition)).ruling()[:2] == (Verdict.BAD, "body")
    assert (await select("SELECT 1 AS n WHERE false", body_condition=condition)).ruling()[:2] == (Verdict.BAD, "body")


@pytest.mark.parametrize(
    "statement",
    [
        "", "DELETE FROM probed", "SELECT 1; DELETE FROM probed",
        "WITH gone AS (DELETE FROM probed RETURNING n) TABLE gone",
        "SELECT n INTO copied FROM probed", "COPY probed TO PROGRAM 'id'", "SELECT pg_terminate_backend(1)",
        "SELECT set_config('a', 'b', false)", "SELECT 1) AS q; DELETE FROM probed; --", "SELECT 1) q, (SELECT 2",
        "SELECT E'\\'; DELETE FROM probed; --'", "SELECT $a$ $b$; DELETE $b$ $a$; DELETE", "EXPLAIN ANALYZE SELECT 1",
        "SELECT n FROM probed FOR UPDATE", "SELECT lo_unlink(1)", "SELECT \"PG_SLEEP\"; SELECT 1",
        "SELECT \"pg_sleep\"(9)", "SELECT pg_catalog.\"pg_read_file\"('x')", "SELECT pg_sleep/**/(9)",
        "SELECT pg_sleep--\n(9)", "SELECT 1 --\r, pg_sleep(9)", "SELECT 1 /* /* */ ' */ */, pg_sleep(9) --'",
        "SELECT * FROM ts_stat('SELECT pg_sleep(9)')",
    ],
)  # fmt: skip
def test_what_does_more_than_read_is_not_even_saved(statement):
    with pytest.raises(probe_spec.BadSpec) as bad:
        probe_spec.read(asks("postgres", 5432, statement=statement), "postgres")

    assert bad.value.field == "statement"


async def test_what_writes_in_a_function_is_refused_by_the_server():
    found = await select("SELECT bump()")

    assert found.ruling() == (Verdict.INCONCLUSIVE, "spec", True)
    assert "change" in found.detail


@pytest.mark.parametrize(
    ("statement", "more", "expected"),
    [
        ("SELECT nonsense FROM probed", {}, (Verdict.INCONCLUSIVE, "bad_request")),
        ("SELECT 1/0", {}, (Verdict.INCONCLUSIVE, "bad_request")),
        ("SELECT 1", {"user": "nobody_here"}, (Verdict.INCONCLUSIVE, "bad_request")),
        ("SELECT 1", {"database": "no_such_database"}, (Verdict.INCONCLUSIVE, "bad_request")),
        ("SELECT 1", {"tls": "encrypt"}, (Verdict.INCONCLUSIVE, "bad_request")),
    ],
)
async def test_what_the_server_refuses_is_the_probes_own_fault(statement, more, expected):
    assert (await select(statement, **more)).ruling()[:2] == expected


async def test_a_statement_that_takes_too_long_is_stopped():
    found = await select("SELECT count(*) FROM generate_series(1, 1000000000)", limit=0.4)

    assert found.ruling()[:2] == (Verdict.BAD, "timeout")


async def test_of_a_vast_answer_no_more_than_the_cap_is_sent():
    found = await select("SELECT repeat('x', 50000000) AS n")

    assert found.ruling().verdict is Verdict.GOOD
    assert len(found.seen.body) == 256 * 1024


async def test_the_certificate_is_checked_against_the_name(servers, monkeypatch):
    servers["certificate"].trusted(monkeypatch)

    async def loopback(host, port):
        return ["127.0.0.1"]

    async with listening(counterparts.postgres_over_tls(servers["certificate"].server())) as port:
        right = await ask("postgres", asks("postgres", port, tls="verify"))
        wrong = await ask("postgres", asks("postgres", port, host="other.example", tls="verify"), resolve=loopback)

    assert right.ruling() == (Verdict.GOOD, "passed", False), right.answered()
    assert wrong.ruling()[:2] == (Verdict.BAD, "certificate")
