"""The styleguide: for admins, and true to the sheet that it shows."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from dashboard.views import styleguide


def test_an_admin_sees_every_colour_with_its_meaning(cast, as_):
    page = as_(cast.ada).get(reverse("dashboard:styleguide")).content.decode()

    for name, meaning in styleguide.MEANINGS.items():
        assert f"<code>--{name}</code>" in page and meaning in page
    for kind in styleguide.KINDS:
        assert f'class="badge {kind}"' in page


@pytest.mark.parametrize("name", ["ann", "otto", "petra"])
def test_nobody_else_does(cast, as_, name):
    assert as_(getattr(cast, name)).get(reverse("dashboard:styleguide")).status_code == 403


def test_every_colour_of_the_sheet_that_is_no_shade_of_another_has_a_meaning():
    shade = re.compile(r"-(ink|soft|line)$")
    named = re.findall(r"--([a-z0-9-]+): light-dark\(oklch", styleguide.TOKENS.read_text())

    assert {name for name in named if not shade.search(name)} - {"on-state"} <= set(styleguide.MEANINGS)
