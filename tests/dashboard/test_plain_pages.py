"""Pages for when something is not as it should be: each says what happened and what to do, and stands by itself."""

import pytest
from django.template.loader import render_to_string


@pytest.mark.parametrize(
    ("name", "heading", "mend"),
    [
        ("403", "Not allowed", "Go back to the page"),
        ("403_csrf", "This form is too old", "load the page anew"),
        ("404", "Not here", "Check the address"),
        ("500", "Something broke on our side", "Agents go on deciding"),
    ],
)
def test_each_has_its_number_its_words_and_a_way_on(name, heading, mend):
    text = render_to_string(f"{name}.html", {"exception": "there is no <such> tool"})

    assert f"<title>{heading} · Recloser</title>" in text and f"<h1>{heading}</h1>" in text
    assert mend in text and f">{name[:3]}<" in text and 'href="/"' in text
    assert ("there is no &lt;such&gt; tool" in text) == (name == "404")
    assert "<script" not in text and "style=" not in text
