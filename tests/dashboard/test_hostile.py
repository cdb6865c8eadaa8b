"""Names, errors and texts of an attacker go through every page, and stay text."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests.conftest import NOON
from tests.dashboard import attacker, everywhere
from tests.dashboard.attacker import PIECES, RAW

SPEAKING = {
    "board", "circuit", "dependency-policy", "probe", "probe-test", "trips", "trip", "runs", "run", "why", "tools",
    "tool", "tool-policy", "reviews", "review", "alerts", "settings", "people", "audit", "action-force-close",
    "edit-channel", "tool-review",
}  # fmt: skip
"""Pages that repeat what somebody else has named or said."""


def text_of(answer):
    return (b"".join(answer.streaming_content) if answer.streaming else answer.content).decode()


def test_no_page_lets_an_attackers_text_be_more_than_text(cast, as_):
    """Every address there is, read off the URL conf: as a page and as the part that a script asks for."""
    stood = attacker.attack(cast, NOON)
    client = as_(cast.ada)

    for name, path in everywhere.addresses(stood).items():
        for headers in ({}, {"HX-Request": "true"}):
            answer = client.get(path, headers=headers)
            assert answer.status_code == (302 if name == "sign-in" else 200), path
            if not path.endswith(".csv"):
                assert [piece for piece in PIECES if piece in text_of(answer)] == [], path


def test_what_the_attacker_says_is_shown_where_people_look_for_it(cast, as_):
    """Otherwise the test above would prove little."""
    stood = attacker.attack(cast, NOON)
    client = as_(cast.ada)

    paths = everywhere.pages(stood)
    shown = {name: text_of(client.get(paths[name])).partition("<main")[2] for name in SPEAKING}

    assert [name for name, text in shown.items() if "&lt;img src=x" not in text] == []


@pytest.mark.parametrize("name", ["find", "trips", "runs", "audit", "board"])
def test_no_address_gives_its_words_to_a_page_as_they_are(cast, as_, name):
    words = dict.fromkeys(
        ("q", "tool", "dependency", "agent", "owner", "actor", "target", "order", "before", "id"), RAW
    )

    text = as_(cast.ada).get(reverse(f"dashboard:{name}"), words).content.decode()

    assert [piece for piece in PIECES if piece in text] == []


@pytest.mark.parametrize("page", ["/", "/trips/", "/styleguide/", "/find/?q=a", "/runs.csv"])
def test_every_answer_allows_no_foreign_thing_and_no_frame(cast, as_, page):
    answer = as_(cast.ada).get(page)

    policy = answer["Content-Security-Policy"]
    assert "unsafe-inline" not in policy and "frame-ancestors 'none'" in policy
    assert answer["Referrer-Policy"]
