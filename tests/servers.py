"""A pytest plugin, loaded before Django's: real Postgres and Valkey for the tests, and settings that find them."""

import os

from deploy.local import embedded

_worker = os.environ.get("PYTEST_XDIST_WORKER", "")

servers = embedded.ensure("test")

os.environ["DATABASE_URL"] = servers.database_url
os.environ["REDIS_URL"] = servers.redis_url
os.environ.setdefault("RECLOSER_SECRET_KEY", "only-for-tests-and-never-for-anything-else")
os.environ.setdefault("RECLOSER_FIELD_KEYS", "a2V5LWZvci10ZXN0cy1vbmx5LTMyLWJ5dGVzLWxvbmc=")
os.environ.setdefault("RECLOSER_LOG_LEVEL", "WARNING")
