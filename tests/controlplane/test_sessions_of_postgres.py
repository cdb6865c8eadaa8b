"""What every session of Postgres begins with, in each of our pools."""

import psycopg
import pytest
from django.db import connection

from controlplane import settings
from controlplane.edge import database

SHOW = "SHOW idle_in_transaction_session_timeout"


@pytest.mark.django_db
def test_a_process_that_stops_in_a_transaction_does_not_hold_its_locks_for_ever():
    with connection.cursor() as cursor:
        cursor.execute(SHOW)
        assert cursor.fetchone() == ("30s",)


@pytest.mark.django_db
def test_the_same_holds_in_the_edges_own_pool():
    with psycopg.connect(
        **{name: value for name, value in database.pool().kwargs.items() if name != "row_factory"}
    ) as own:
        assert own.execute(SHOW).fetchone() == ("30s",)
        assert own.execute("SHOW statement_timeout").fetchone() == ("5s",)


def test_what_the_address_says_wins():
    address = "postgresql://recloser@db/recloser?options=-c%20idle_in_transaction_session_timeout%3D5s"

    given = settings._database(address)["OPTIONS"]["options"]

    assert given.endswith("-c idle_in_transaction_session_timeout=5s")
