"""Directives that write what the code itself knows: the policy schema, the classes, the default map, the command."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from docutils import nodes
from recloser import cli
from recloser.core.outcomes import DEFAULT_RULES, Rule
from recloser.core.policy import CIRCUIT_FIELDS, RUN_FIELDS, STRICTNESS, Field, Level, preset
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

LEVELS = {
    Level.ENVIRONMENT: "environment",
    Level.CIRCUIT: "environment, class, dependency",
    Level.TOOL: "environment, class, tool",
}
HOLDERS = {"circuit": CIRCUIT_FIELDS, "run": RUN_FIELDS}
WAITING: frozenset[str] = frozenset()
"""Declared and validated, but nothing acts on them yet; a test takes a name out of here when something does."""


class PolicyTable(SphinxDirective):
    """`{policy-table} circuit` or `run`: every field of that policy, as the schema declares it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One row a field."""
        head = ("field", "default", "bounds", "set by", "what it does")
        return [table(head, [field_row(row) for row in HOLDERS[self.arguments[0]].values()])]


def field_row(row: Field) -> Sequence[nodes.Node]:
    """A field of the schema as cells."""
    what = f"{row.help} (Not in use yet.)" if row.name in WAITING else row.help
    return (literal(row.name), literal(shown(row.default)), text(bounds(row)), text(LEVELS[row.level]), text(what))


def shown(value: Any) -> str:
    """A value as a policy's author writes it."""
    if value is None:
        return "off"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if value not in ("", ()) else "none"


def bounds(row: Field) -> str:
    """What a value may be."""
    if row.choices:
        return ", ".join(row.choices)
    if row.low is None and row.high is None:
        return row.kind.value
    if row.kind.value == "text":
        return f"up to {row.high:,.0f} characters"
    span = f"{row.low:,g} to {row.high:,.0f}" if row.high is not None else f"from {row.low:,g}"
    return " ".join(part for part in (span, row.unit, "or off" if row.nullable else "") if part)


class ClassTable(SphinxDirective):
    """`{class-table}`: what each side-effect class sets, from the most lenient to the strictest."""

    def run(self) -> list[nodes.Node]:
        """One row a class."""
        head = ("class", "failures in a row", "identical calls", "both if costly", "repeat blocked at once")
        return [table(head, [class_row(name) for name in STRICTNESS])]


def class_row(name: Any) -> Sequence[nodes.Node]:
    """One class's preset as cells."""
    plain, costly = preset(name), preset(name, costly=True)
    pair = f"{costly.run['consecutive_failures']} / {costly.run['identical_calls']}"
    return (
        literal(name.value),
        text(plain.run["consecutive_failures"]),
        text(plain.run["identical_calls"]),
        text(pair),
        text("yes" if plain.run["repeat_at_once"] else "no"),
    )


class OutcomeTable(SphinxDirective):
    """`{outcome-table}`: the default map from answers to outcomes."""

    def run(self) -> list[nodes.Node]:
        """One row an answer."""
        return [table(("answer", "outcome", "wait"), [rule_row(*one) for one in DEFAULT_RULES.items()])]


def rule_row(answer: str, rule: Rule) -> Sequence[nodes.Node]:
    """One rule of the map as cells."""
    wait = "" if rule.wait_s is None else f"{rule.wait_s:,.0f} s"
    return literal(answer), literal(rule.outcome.value), text(wait)


class CommandHelp(SphinxDirective):
    """`{command-help}`: each subcommand of `recloser` with its own help."""

    def run(self) -> list[nodes.Node]:
        """One section of text a subcommand."""
        commands = argparse.ArgumentParser(prog="recloser").add_subparsers()
        for add in cli.SUBCOMMANDS:
            add(commands)
        return [nodes.literal_block("", parser.format_help(), language="text") for parser in commands.choices.values()]


def literal(value: Any) -> nodes.Node:
    """A cell of code."""
    return nodes.literal("", str(value))


def text(value: Any) -> nodes.Node:
    """A cell of prose."""
    return nodes.Text(str(value))


def table(head: Sequence[str], rows: Iterable[Sequence[nodes.Node]]) -> nodes.table:
    """A table node with one heading row."""
    group = nodes.tgroup("", cols=len(head))
    group += [nodes.colspec("", colwidth=1) for _ in head]
    group += nodes.thead("", line([text(name) for name in head]))
    group += nodes.tbody("", *[line(row) for row in rows])
    return nodes.table("", group, classes=["colwidths-auto"])


def line(cells: Sequence[nodes.Node]) -> nodes.row:
    """One row of cells."""
    return nodes.row("", *[nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells])


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx of the directives; they read nothing that could differ between two readers."""
    app.add_directive("policy-table", PolicyTable)
    app.add_directive("class-table", ClassTable)
    app.add_directive("outcome-table", OutcomeTable)
    app.add_directive("command-help", CommandHelp)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
