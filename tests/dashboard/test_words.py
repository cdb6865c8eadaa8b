"""What the pages say, and how names become addresses."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha384
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recloser.core.policy import CircuitPolicy, RunPolicy
from recloser.core.types import DegradedBehaviour

import dashboard
from controlplane.models import Trip
from controlplane.names import NameConverter
from dashboard import words

STATIC = Path(dashboard.__file__).parent / "static" / "dashboard"


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0 s"), (0.5, "0.5 s"), (59.6, "60 s"), (99, "99 s"), (120, "2 min"), (5940, "99 min"), (7200, "2 h"),
     (7320, "2 h 2 min"), (172_800, "2 d"), (-3, "0 s"), (None, "—")],
)  # fmt: skip
def test_lengths_of_time(value, said):
    assert words.seconds(value) == said


@pytest.mark.parametrize(
    ("value", "said"), [(0.0, "0\u00a0%"), (0.004, "<1\u00a0%"), (0.5, "50\u00a0%"), (1.0, "100\u00a0%"), (None, "—")]
)
def test_shares(value, said):
    assert words.percent(value) == said


@pytest.mark.parametrize(
    ("signal", "evidence", "limit", "said"),
    [
        ("failure_rate", {"failure_rate": 7 / 9, "calls": 9, "failures": 7, "witnesses": 3, "window_s": 60}, 0.5,
         "7 of 9 calls failed in 60 s, from 3 workers; trips at 50\u00a0%"),
        ("slow_call_rate", {"slow_call_rate": 0.6, "calls": 20, "slow": 12, "failures": 0, "witnesses": 1}, 0.5,
         "12 of 20 calls were slow in 60 s, from 1 worker; trips at 50\u00a0%"),
        ("consecutive_failures", {"consecutive_failures": 5, "witnesses": 2}, 5,
         "5 failures in a row, from 2 workers; trips at 5"),
        ("identical_calls", {"identical_calls": 5}, 5, "5 identical calls; trips at 5"),
        ("token_budget", {"token_budget": 12_000.5}, 10_000, "12\u00a0000.50 tokens; trips at 10\u00a0000"),
    ],
)  # fmt: skip
def test_a_cause_is_a_sentence(signal, evidence, limit, said):
    trip = Trip(signal=signal, evidence=evidence, threshold={signal: limit})

    assert words.cause(trip, CircuitPolicy()) == said


@pytest.mark.parametrize("evidence", [{}, [], None, "x", {"calls": "many", "failures": None}, {"failure_rate": True}])
def test_evidence_that_makes_no_sense_is_left_out(evidence):
    trip = Trip(signal="failure_rate", evidence=evidence, threshold=evidence)

    assert words.cause(trip, CircuitPolicy()).startswith("failure rate")


@pytest.mark.parametrize("behaviour", DegradedBehaviour)
def test_every_degraded_behaviour_has_words(behaviour):
    said = words.behaviour(RunPolicy(degraded_behaviour=behaviour, fallback_tool="news_search"))

    assert said == ("use news_search" if behaviour is DegradedBehaviour.FALLBACK else said)
    assert (said == "undecided") is (behaviour is DegradedBehaviour.UNDECIDED)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1))
def test_every_name_survives_its_address(name):
    segment = NameConverter().to_url(name)

    assert NameConverter().to_python(segment) == name
    assert re.fullmatch(r"[A-Za-z0-9._~-]+", segment)
    assert segment.strip(".")


def test_a_plain_name_looks_plain():
    assert NameConverter().to_url("search-api.v2") == "search-api.v2"


def test_vendored_files_are_what_their_manifest_says_and_keep_their_licences():
    for entry in json.loads((STATIC / "vendor/manifest.json").read_text()):
        for name, digest in entry["files"].items():
            content = (STATIC / "vendor" / name).read_bytes()
            assert digest == f"sha384-{b64encode(sha384(content).digest()).decode()}"
            assert (STATIC / "vendor" / name).parent.joinpath("LICENSE").exists()


def test_nothing_on_the_pages_is_inline_or_from_elsewhere():
    for template in (Path(dashboard.__file__).parent / "templates").rglob("*.html"):
        text = template.read_text()
        assert not re.search(r"\sstyle=|\son[a-z]+=|<style|<script(?![^>]*\ssrc=)", text), template.name
        assert not re.search(r"(src|href)=\"https?:", text), template.name
