"""The system checks find what is missing before anything starts, and say how to mend it."""

import pytest
from django.core.checks import run_checks


def _found():
    return {finding.id: finding for finding in run_checks() if finding.id.startswith("recloser.")}


@pytest.mark.parametrize(
    ("setting", "value", "name"),
    [
        ("SECRET_KEY", "", "recloser.E001"),
        ("SECRET_KEY", "short", "recloser.E002"),
        ("DATABASE_URL", "mysql://localhost/x", "recloser.E003"),
        ("DATABASE_URL", "postgresql://localhost", "recloser.E004"),
        ("REDIS_URL", "amqp://localhost", "recloser.E005"),
        ("FIELD_KEYS", ["no key"], "recloser.E006"),
        ("FIELD_KEYS", [], "recloser.W001"),
        ("PUBLIC_URL", "recloser.example.org", "recloser.E007"),
        ("EGRESS_PROXY", "proxy.example.org:3128", "recloser.E009"),
    ],
)
def test_a_wrong_setting_is_found_by_its_id(settings, setting, value, name):
    settings.FIELD_KEYS = ["a2V5LWZvci10ZXN0cy1vbmx5LTMyLWJ5dGVzLWxvbmc="]
    setattr(settings, setting, value)

    assert name in _found()
    assert "Set RECLOSER" in _found()[name].hint or "Set " in _found()[name].hint


def test_right_settings_find_nothing(settings):
    settings.FIELD_KEYS = ["a2V5LWZvci10ZXN0cy1vbmx5LTMyLWJ5dGVzLWxvbmc="]

    assert _found() == {}
