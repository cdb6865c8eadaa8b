"""The small parts that every page is made of."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django import template
from django.forms import BaseForm, CheckboxInput
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from recloser.core.policy import CircuitPolicy
from recloser.core.probe import Fault
from recloser.core.types import FAILURES

from controlplane.models import Dependency, Environment, ProbeRound, Run, ToolChange, Transition, Trip
from controlplane.selectors import readmission, reviews, runs
from controlplane.selectors.circuits import Callers, Calls, Standing
from controlplane.selectors.keyset import Order
from controlplane.selectors.lines import RunLine, TripLine
from controlplane.selectors.runs import Why
from controlplane.services.loosening import Need, ToolNeed
from dashboard import addresses, build, gauges, words

register = template.Library()

LONGEST_TEXT = 200


@register.simple_tag
@functools.lru_cache(maxsize=256)
def icon(name: str, extra: str = "") -> SafeString:
    """One symbol of the sprite; decoration only, the word stands beside it."""
    return format_html('<svg class="icon {}" aria-hidden="true"><use href="#i-{}"/></svg>', extra, name)


@register.filter
def symbol(kind: str) -> str:
    """The symbol of a kind of standing."""
    return {"forced": "lock", "locked_out": "siren"}.get(kind, kind)


@register.filter
def tone_class(kind: str) -> str:
    """The colour of a kind of standing."""
    return f"tone-{ {'locked_out': 'open', 'suspected': 'half_open'}.get(kind, kind) }"


@register.simple_tag
def badge(kind: str, word: str = "") -> SafeString:
    """A state by shape, word and colour."""
    return format_html(
        '<span class="badge {}">{}{}</span>', kind, icon(symbol(kind)), word or words.KINDS.get(kind, kind)
    )


@register.simple_tag
def standing_badges(here: Standing) -> SafeString:
    """State, mode and effective state, where they differ from each other."""
    state = badge(here.kind if here.kind in ("locked_out", "suspected") else here.core.state.value)
    mode = badge("forced", words.sentence(words.MODES[here.mode.value])) if here.mode != "auto" else ""
    meets = here.effective.value != here.core.state.value
    effective = format_html('<span class="badge plain">callers meet: {}</span>', words.KINDS[here.effective.value])
    return format_html("{}{}{}", state, mode, effective if meets else "")


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")


def _absolute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


@register.simple_tag(takes_context=True)
def ago(context: template.Context, at: datetime | None) -> SafeString | str:
    """`3 min ago`, ticking in the browser; the absolute time stands behind it."""
    if at is None:
        return "never"
    return _ago(at, past(at, context["now"]))


def past(at: datetime, now: datetime) -> str:
    """How long it is gone, in words."""
    seconds = (now - at).total_seconds()
    return "just now" if seconds < 1 else f"{words.seconds(seconds)} ago"


def _ago(at: datetime, text: str) -> SafeString:
    return format_html('<time datetime="{}" title="{}" data-ago>{}</time>', _iso(at), _absolute(at), text)


AGE = SafeString("<!--age-->")
"""Where an age will stand: no text of an agent can look like this, for its brackets are escaped."""


@register.simple_tag
def ago_later(at: datetime) -> SafeString:
    """The same in a row that is kept: its age is put in when it is sent."""
    return _ago(at, AGE)


@register.simple_tag(takes_context=True)
def age(context: template.Context, at: datetime | None) -> SafeString | str:
    """`for 3 min`, without the `for`."""
    if at is None:
        return "—"
    past = (context["now"] - at).total_seconds()
    return format_html(
        '<time datetime="{}" title="{}" data-ago="bare">{}</time>', _iso(at), _absolute(at), words.seconds(past)
    )


@register.simple_tag(takes_context=True)
def countdown(context: template.Context, at: datetime | None) -> SafeString | str:
    """`in 12 s`, counting down in the browser."""
    if at is None:
        return "—"
    left = (at - context["now"]).total_seconds()
    text = "due now" if left <= 0 else f"in {words.seconds(left)}"
    return format_html(
        '<time class="countdown" datetime="{}" title="{}" data-in>{}</time>', _iso(at), _absolute(at), text
    )


@register.simple_tag
def clock(at: datetime | None, style: str = "") -> SafeString | str:
    """An instant; the browser shows it in the viewer's zone."""
    if at is None:
        return "—"
    text = f"{at:%H:%M}" if style == "time" else f"{at:%Y-%m-%d %H:%M}"
    return format_html(
        '<time datetime="{}" title="{}" data-at="{}">{} UTC</time>', _iso(at), _absolute(at), style, text
    )


@register.filter
def span(value: float | None) -> str:
    """A length of time."""
    return words.seconds(value)


@register.simple_tag
def between(start: datetime, end: datetime) -> str:
    """How long from one to the other."""
    return words.seconds((end - start).total_seconds())


@register.filter
def share(value: float | None) -> str:
    """A share in per cent."""
    return words.percent(value)


@register.filter
def bar(value: float | None, full: int = 200) -> str:
    """A share as a width."""
    return f"{full * (value or 0):.1f}"


BARS = 40


@register.filter
def bar_height(count: int, most: int) -> str:
    """How high a bar stands that counts this much of the most."""
    return f"{BARS * count / (most or 1):.1f}"


@register.filter
def bar_top(count: int, most: int) -> str:
    """Where that bar begins."""
    return f"{BARS + 2 - BARS * count / (most or 1):.1f}"


@register.filter
def clip(value: Any) -> str:
    """Text from an agent: cut to a length that a page can bear; Django escapes it."""
    text = str(value if value is not None else "").replace("\x00", "")
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


@register.filter
def counted(value: int, noun: str) -> str:
    """`{{ 3|counted:"worker" }}`: 3 workers."""
    one, _, many = noun.partition(",")
    return words.plural(value, one, many or None)


@register.filter
def grouped(value: Any) -> str:
    """12 345."""
    return f"{value:,}".replace(",", " ")


@register.filter
def per_step(value: float) -> str:
    """An amount of tokens that is no whole number."""
    return grouped(round(value))


@register.filter
def listed(given: Any) -> str:
    """`a, b and 4 more`."""
    return words.names([clip(each) for each in given])


@register.filter
def word(value: Any, table: str) -> str:
    """A value of ours in an operator's words."""
    known: Mapping[str, str] = getattr(words, table)
    return known.get(str(value), str(value).replace("_", " "))


@register.filter
def trip_line(trip: Trip | TripLine) -> str:
    """The cause of a trip, where no policy is at hand."""
    return words.sentence(words.cause(trip, CircuitPolicy()))


@register.filter
def subject(trip: Trip) -> str:
    """What a trip took away: the tool, else the dependency, else the run itself."""
    if trip.tool is not None:
        return clip(trip.tool.name)
    return clip(trip.dependency.slug) if trip.dependency is not None else "the run"


@register.simple_tag
def choice_field(name: str, label: str, among: Iterable[str], chosen: str, table: str) -> SafeString:
    """A filter that is one of a few words, or any."""
    options = format_html_join(
        "",
        '<option value="{}"{}>{}</option>',
        ((one, " selected" if one == chosen else "", word(one, table)) for one in among),
    )
    return format_html(
        '<label>{}<select name="{}"><option value="">any</option>{}</select></label>', label, name, options
    )


@register.simple_tag
def part_bar(part: float) -> SafeString:
    """A share as a bar; the figure stands beside it."""
    return format_html(
        '<svg class="who-fails" viewBox="0 0 96 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="none" width="96" height="8" rx="2"/><rect class="bad" width="{}" height="8" rx="2"/></svg>',
        f"{96 * part:.1f}",
    )


@register.simple_tag
def why(here: Standing, trip: Trip | None, policy: CircuitPolicy) -> str:
    """Why it stands like this."""
    return words.why(here, trip, policy)


@register.filter
def behaviour(policy: Any) -> str:
    """What a run does without the tool."""
    return words.behaviour(policy)


@register.filter
def by_behaviour(given: Any) -> Any:
    """Tools by what is done without them."""
    return words.grouped(given).items()


@register.simple_tag
def ramp_of(here: Standing, policy: CircuitPolicy) -> readmission.Ramp | None:
    """Whom a ramp admits at this moment; nothing without one."""
    return readmission.ramp(here, policy)


@register.simple_tag
def hidden_errors(form: BaseForm) -> list[str]:
    """What is wrong with fields that nobody sees."""
    return [str(error) for field in form.hidden_fields() for error in field.errors]


@register.simple_tag
def is_testable(here: Standing, policy: CircuitPolicy, has_probe: bool | None) -> bool:
    """Whether its probe, or without one the call of a later run, can test it."""
    return readmission.is_testable(here.tools, policy, probed=bool(has_probe))


@register.filter
def moved(row: Transition) -> str:
    """What a transition did."""
    return words.moved(row)


@register.filter
def tone(row: Transition) -> str:
    """Its symbol and colour."""
    return words.tone(row)


@register.simple_tag
def form_token() -> SafeString:
    """One per form shown: a second click on it is the same deed."""
    return format_html('<input type="hidden" name="token" value="{}">{}', uuid.uuid4(), form_build())


@register.simple_tag
def form_build() -> SafeString:
    """The build of the page that a form stands on: what an older page wants to change is refused."""
    return format_html('<input type="hidden" name="{}" value="{}">', build.FIELD, build.current())


@register.simple_tag
def page_build() -> str:
    """The build of this page."""
    return build.current()


@register.simple_tag(takes_context=True)
def circuit_url(context: template.Context, dependency: Dependency, page: str = "circuit", *more: str) -> str:
    """A page of a dependency in the page's environment."""
    return circuit_at(context["environment"].slug, dependency.slug, page, *more)


@register.simple_tag
@functools.lru_cache(maxsize=4096)
def circuit_at(environment: str, dependency: str, page: str = "circuit", *more: str) -> str:
    """The same, by names."""
    return str(reverse(f"dashboard:{page}", args=[environment, dependency, *more]))


@register.simple_tag
def failing_bar(calls: Calls) -> SafeString:
    """Failures against successes, as one bar; the figures stand beside it."""
    failed = 96 * (calls.rate or 0)
    return format_html(
        '<svg class="who-fails" viewBox="0 0 96 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="good" width="96" height="8" rx="2"/><rect class="bad" width="{}" height="8" rx="2"/></svg>',
        f"{failed:.1f}",
    )


@register.inclusion_tag("dashboard/_gauge.html")
def gauge(
    label: str, value: float | None, limit: float | None, shown: str, against: str, top: float = 1.0
) -> dict[str, Any]:
    """A measured value against its threshold."""
    scale = 200 / (max(top, limit or 0, value or 0) or 1)
    return {
        "label": label,
        "width": f"{(value or 0) * scale:.1f}",
        "mark": f"{limit * scale:.1f}" if limit is not None else None,
        "shown": shown,
        "against": against,
        "breached": value is not None and limit is not None and value >= limit,
    }


@register.inclusion_tag("dashboard/_gauge.html")
def trip_gauge(trip: Trip) -> dict[str, Any]:
    """What a trip measured against its threshold."""
    row = gauges.of_signal(trip)
    return gauge(row.label, row.value, row.limit, row.shown, row.against, row.top)


@register.filter
def is_check(field: Any) -> bool:
    """Whether a form field is a tick box."""
    return isinstance(field.field.widget, CheckboxInput)


@register.filter
def delivery_kind(status: str) -> str:
    """The badge of an alert's status."""
    return {"sent": "closed", "dead": "open"}.get(status, "half_open")


@register.simple_tag
def query_with(words: Mapping[str, object], **changes: object) -> str:
    """The address of this list with another filter."""
    return addresses.query(words, **changes)


@register.simple_tag
def column(words: Mapping[str, object], by: Order, name: str, label: str, numbers: bool = False) -> SafeString:
    """The head of a column that the list can be ordered by: a click orders by it, the next one turns it round."""
    here = by.column == name
    falls = here and by.falling
    address = addresses.query(words, order=name if falls else f"-{name}")
    said = format_html(' aria-sort="{}"', "descending" if falls else "ascending") if here else ""
    arrow = format_html('<span aria-hidden="true">{}</span>', " ↓" if falls else " ↑") if here else ""
    kind = "number" if numbers else "ordered"
    return format_html('<th scope="col" class="{}"{}><a href="{}">{}{}</a></th>', kind, said, address, label, arrow)


@register.simple_tag
def order_field(by: Order, **labels: str) -> SafeString:
    """The same as a choice, for where a table has no head."""
    every = [(f"{sign}{name}", f"{label}, {end}") for name, label in labels.items() for sign, end in _ENDS]
    options = format_html_join(
        "",
        '<option value="{}"{}>{}</option>',
        ((word, " selected" if word == by.word else "", text) for word, text in every),
    )
    return format_html('<label>Order<select name="order">{}</select></label>', options)


_ENDS = (("-", "falling"), ("", "rising"))


@register.simple_tag
def copy(value: Any, label: str) -> SafeString:
    """A button that copies an id."""
    return format_html(
        '<button type="button" class="copy needs-js" data-copy="{}" aria-label="Copy {}" title="Copy {}">{}</button>',
        value,
        label,
        label,
        icon("copy"),
    )


@register.filter
def verdict_kind(verdict: str) -> str:
    """The badge of a probe's verdict."""
    return {"good": "closed", "bad": "open"}.get(verdict, "unknown")


@register.filter
def answer(row: ProbeRound) -> str:
    """What came back to a probe, in one line: `503 in 84 ms, status wanted 200-299`, or why there was nothing."""
    got = row.answered if isinstance(row.answered, dict) else {}
    took = words.number(got.get("took_ms"))
    parts = [str(got["status"])] if got.get("status") else []
    parts += [f"in {took:.0f} ms"] if took is not None else []
    line = ", ".join(part for part in (" ".join(parts), *_unmet(got)) if part)
    return clip(line) or "—"


def _unmet(got: dict[str, Any]) -> list[str]:
    """The conditions that failed; where there was no answer to hold them against, why."""
    given = got.get("conditions")
    failed = [one for one in given if isinstance(one, dict) and not one.get("held")] if isinstance(given, list) else []
    if got.get("cause") == Fault.PROBER_SUSPECT:
        return [words.FAULTS["prober_suspect"]]
    if failed:
        return [f"{one.get('name')} wanted {one.get('expected')}, saw {one.get('seen')}" for one in failed]
    cause = str(got.get("cause") or "")
    return [] if cause in ("", "passed") else [words.FAULTS.get(cause, cause.replace("_", " "))]


@register.filter
def will_call(found: Callers) -> str:
    """Who calls again."""
    return words.will_call(found)


@register.filter
def lacks(run: Run) -> list[dict[str, Any]]:
    """What a run went without, entry by entry."""
    return runs.lacks(run)


@register.filter
def own_lacks(run: Run) -> list[dict[str, Any]]:
    """The same without what its subagents lacked."""
    return runs.own_lacks(run)


@register.filter
def lacked(run: Run | RunLine) -> list[str]:
    """The tools a run went without, each once."""
    return list(dict.fromkeys(str(one.get("tool", "?")) for one in runs.lacks(run)))[:5]


@register.simple_tag
def why_url(run: Run | str, tool: Any) -> str:
    """The page that says why this tool was not there for this run, or for the one of this id."""
    key = run.pk if isinstance(run, Run) else run
    return str(reverse("dashboard:why", args=[key, str(tool)[:LONGEST_TEXT] or "-"]))


@register.simple_tag
def run_url(run_id: str) -> str:
    """The page of the run of this id."""
    return str(reverse("dashboard:run", args=[run_id]))


@register.simple_tag
def id_url(name: str, key: uuid.UUID) -> str:
    """The page of this id. Long lists have a hundred of them, so the address around it is looked up once."""
    before, after = _around_an_id(name)
    return f"{before}{key}{after}"


@functools.cache
def _around_an_id(name: str) -> tuple[str, str]:
    nobody = uuid.UUID(int=0)
    before, _, after = str(reverse(f"dashboard:{name}", args=[nobody])).partition(str(nobody))
    return before, after


@register.simple_tag
def why_said(found: Why) -> str:
    """Why it was missing, in one sentence."""
    return words.why_missing(found)


@register.simple_tag
def twin(mark: str, times: int, noun: str) -> SafeString | str:
    """The letter that calls with the same hash share; nothing for one without a twin."""
    if not mark:
        return ""
    title = f"the same {noun} {words.plural(times, 'time')} in this run"
    return format_html('<b class="twin-mark" title="{}">{}<small>×{}</small></b>', title, mark, times)


@register.filter
def times(count: Any) -> str:
    """`once`, `3 times`."""
    found = int(words.number(count) or 0)
    return "once" if found == 1 else f"{found} times"


@register.filter
def attempts(count: Any) -> str:
    """How often the transport tried; nothing where once was enough."""
    found = int(words.number(count) or 0)
    return f"{found} attempts" if found > 1 else ""


@register.filter
def wall(run: Run | RunLine) -> str:
    """From start to end, on the clock."""
    return words.seconds((run.ended_at - run.started_at).total_seconds()) if run.ended_at else "running"


@register.filter
def money(value: float) -> str:
    """An amount without its currency, which an agent does not say."""
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.4f}"


@register.filter
def ms(value: Any) -> str:
    """A duration in milliseconds, as a length of time."""
    found = words.number(value)
    if found is None:
        return "—"
    return f"{found:.0f} ms" if found < 1000 else words.seconds(found / 1000)


@register.filter
def hash8(value: Any) -> str:
    """The beginning of a hash: enough to see that two are the same."""
    return str(value)[:8] if value else "—"


@register.filter
def slice8(value: Any) -> str:
    """The beginning of an id."""
    return str(value)[:8]


@register.filter
def line_class(outcome: Any) -> str:
    """How a line of the step log is marked."""
    if outcome in FAILURES:
        return "failed"
    return "refused" if outcome in ("rejected", "unknown_tool") else ""


_REVISION_TONES = {"in_review": "warn", "published": "closed", "approved": "closed", "rejected": "open"}


@register.simple_tag
def revision_owner(row: reviews.Proposal) -> str:
    """What a revision, or a change of a tool, is about."""
    if isinstance(row, ToolChange):
        return f"{clip(row.tool.name)}: what it is"
    owner = row.tool or row.dependency
    if owner is not None:
        return clip(str(owner))
    return f"class {row.side_effect}" if row.side_effect else f"all of {row.environment.slug}"


@register.simple_tag
def review_url(row: reviews.Proposal) -> str:
    """Where it is looked at, and decided."""
    page = "tool-review" if isinstance(row, ToolChange) else "review"
    return reverse(f"dashboard:{page}", args=[row.environment.slug, row.pk])


@register.simple_tag
def change_words(row: ToolChange) -> str:
    """What a tool would be, in a few words."""
    said: list[str] = []
    for name, value in row.wanted.items():
        match name:
            case "side_effect":
                said.append(words.CLASSES[value])
            case "costly":
                said.append("costly" if value else "not costly")
            case _:
                said.append(f"behind {clip(', '.join(value))}")
    return words.sentence(", ".join(said))


SHOWN_NAMES = 5


@register.filter
def named(names: list[str]) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(names[:SHOWN_NAMES]) + more


@register.simple_tag
def revision_badge(row: reviews.Proposal) -> SafeString:
    """Where it stands."""
    tone = _REVISION_TONES.get(row.status, "plain")
    return format_html('<span class="badge {}">{}</span>', tone, words.REVISIONS[row.status])


@register.simple_tag
def need_line(need: Need | ToolNeed) -> str:
    """Why a change needs a second person, as people say it."""
    return f"{words.sentence(need.message.replace('_', ' '))}."


@register.simple_tag
def waiting_reviews(environment: Environment) -> int:
    """How many changes wait for a second person."""
    return reviews.waiting_count(environment)
