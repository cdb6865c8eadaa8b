"""What an operator says of a tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.urls import reverse
from recloser.core.types import SideEffectClass

from controlplane.models import Tool
from dashboard import words


class GuardForm(forms.Form):
    """What says how a tool is guarded; choosing a class confirms it."""

    side_effect = forms.ChoiceField(
        label="Side-effect class",
        choices=[(each.value, words.sentence(words.CLASSES[each.value])) for each in SideEffectClass],
        help_text="What one call does to the world. Choosing a class confirms it.",
    )
    costly = forms.BooleanField(required=False, label="Each call costs money: one step stricter")
    dependencies = forms.CharField(
        max_length=2000, help_text="What stands behind it, with commas between. It is callable when all of them are."
    )

    def changes(self) -> dict[str, Any]:
        """As the services take them."""
        data = {name: self.cleaned_data[name] for name in ("side_effect", "costly")}
        behind = self.cleaned_data["dependencies"].split(",")
        return data | {"dependencies": [part.strip() for part in behind if part.strip()]}


class ToolForm(GuardForm):
    """All that may be edited of a tool."""

    owner = forms.CharField(required=False, max_length=100, help_text="The team that answers for it.")
    operation = forms.CharField(
        required=False, max_length=200, help_text="The part of the dependency that it uses; a probe names it too."
    )
    field_order = ("side_effect", "costly", "owner", "operation", "dependencies")

    def changes(self) -> dict[str, Any]:
        """As the service takes them."""
        return super().changes() | {name: self.cleaned_data[name] for name in ("owner", "operation")}


def where_to_propose(tool: Tool, wanted: Mapping[str, Any]) -> str:
    """The address at which a second person is asked, filled in with what one alone may not do."""
    said = {"side_effect": wanted["side_effect"]}
    if "costly" in wanted:
        said["costly"] = "true" if wanted["costly"] else "false"
    if "dependencies" in wanted:
        said["dependencies"] = ", ".join(wanted["dependencies"])
    return f"{reverse('dashboard:propose-tool', args=[tool.environment.slug, tool.name])}?{urlencode(said)}"
