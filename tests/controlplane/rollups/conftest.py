"""Each test starts without a row; committed rows are what rollups are about."""

import psycopg
import pytest
from django.db import connection

from tests.controlplane.rollups import rows


@pytest.fixture
def nothing(transactional_db):
    rows.empty()
    yield
    rows.empty()


@pytest.fixture
def another_connection():
    """A second transaction beside the test's own."""
    given = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port")
    with psycopg.connect(**{name: given[name] for name in names if given.get(name)}) as second:
        yield second
