"""What an operator does happens once, is on record, and ends by itself."""

from datetime import timedelta

import pytest

from controlplane import clock
from controlplane.models import AuditEntry, DocumentVersion, Outage, Transition
from controlplane.services import circuits
from controlplane.services.errors import Refused
from tests.controlplane.evidence.batches import observe

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def _order(dependency, **more):
    return {"dependency_id": dependency.pk, "actor": "otto", "reason": "vendor call", "now": clock.now()} | more


def _hold(dependency, **more):
    return _order(dependency, until=clock.now() + HOUR, **more)


def _last_entry():
    return AuditEntry.objects.order_by("-id").first()


def test_hold_open_rejects_until_then_and_leaves_it_due_for_a_probe(cast, row_of, frozen_clock, add_probe):
    add_probe(cast.search_api)
    circuits.hold_open(**_hold(cast.search_api))
    held = row_of(cast.search_api)
    assert (held.state, held.mode, held.mode_expires_at) == ("open", "forced_open", clock.now() + HOUR)
    assert (held.actor, held.reason) == ("otto", "vendor call")
    frozen_clock.advance(1800)
    assert circuits.claim_rounds(now=clock.now()) == []
    frozen_clock.advance(1800)

    assert circuits.sweep_due(now=clock.now()) == 1

    row = row_of(cast.search_api)
    assert (row.state, row.mode, row.cause, row.due_at) == ("open", "auto", "override_expired", clock.now())
    assert len(circuits.claim_rounds(now=clock.now())) == 1


def test_hold_closed_ends_closed_with_fresh_counters(cast, row_of, frozen_clock):
    circuits.hold_closed(**_hold(cast.search_api))
    frozen_clock.advance(3600)
    circuits.sweep_due(now=clock.now())

    row = row_of(cast.search_api)
    assert (row.state, row.mode, row.generation) == ("closed", "auto", 2)


def test_leaving_closed_by_hand_is_an_outage_too(cast):
    circuits.hold_open(**_hold(cast.search_api))
    outage = Outage.objects.get()
    circuits.force_close(**_order(cast.search_api))

    outage.refresh_from_db()
    assert (outage.cause, outage.ended_at) == ("operator", clock.now())


def test_every_action_is_a_transition_with_actor_and_reason_and_raises_the_version(cast):
    version = DocumentVersion.objects.get(environment=cast.prod).circuits
    circuits.hold_open(**_hold(cast.search_api))
    circuits.release(**_order(cast.search_api, reason="over"))

    told = list(Transition.objects.order_by("generation").values_list("cause", "actor", "reason", "to_mode"))
    assert told == [("operator", "otto", "vendor call", "forced_open"), ("operator", "otto", "over", "auto")]
    assert DocumentVersion.objects.get(environment=cast.prod).circuits == version + 2


def test_an_accepted_action_is_on_record(cast):
    circuits.force_close(**_order(cast.search_api))

    entry = _last_entry()
    assert (entry.actor, entry.action, entry.target, entry.accepted, entry.reason) == (
        "otto",
        "force_close",
        "search-api",
        True,
        "vendor call",
    )
    assert entry.environment_id == cast.prod.pk


@pytest.mark.parametrize(
    ("action", "wrong", "field"),
    [
        ("force_close", {"reason": "  "}, "reason"),
        ("force_close", {"reason": "x" * 501}, "reason"),
        ("force_close", {"token": ""}, "token"),
        ("force_close", {"until": "later"}, "until"),
        ("hold_open", {}, "until"),
        ("hold_open", {"until": "before"}, "until"),
        ("hold_closed", {"until": "beyond"}, "until"),
        ("hold_closed", {"until": "naive"}, "until"),
        ("hold_closed", {"until": "later", "reason": ""}, "reason"),
        ("release", {}, None),
        ("probe_now", {}, None),
        ("acknowledge", {}, None),
    ],
)
def test_a_senseless_order_is_refused_with_field_and_mend_changes_nothing_and_is_on_record(
    cast, row_of, action, wrong, field
):
    until = {
        "before": clock.now(),
        "later": clock.now() + HOUR,
        "beyond": clock.now() + timedelta(hours=24, seconds=1),
        "naive": (clock.now() + HOUR).replace(tzinfo=None),
    }
    order = _order(cast.search_api, **wrong)
    if "until" in wrong:
        order["until"] = until[wrong["until"]]
    elif action.startswith("hold"):
        order["until"] = None

    with pytest.raises(Refused) as refused:
        getattr(circuits, action)(**order)

    assert refused.value.field == field and refused.value.mend
    assert row_of(cast.search_api).generation == 0
    assert (_last_entry().action, _last_entry().accepted) == (action, False)


def test_a_dependency_that_is_not_there_is_refused(cast):
    order = _order(cast.search_api) | {"dependency_id": 999_999}

    with pytest.raises(Refused) as refused:
        circuits.force_close(**order)
    assert refused.value.code == "unknown_dependency"


def test_the_same_token_acts_once(cast, row_of):
    for _ in range(3):
        circuits.force_close(**_order(cast.search_api, token="t-1"))

    assert row_of(cast.search_api).generation == 1
    assert Transition.objects.count() == 1


@pytest.mark.parametrize("other", [{"action": "hold_open"}, {"dependency": "crm_db"}])
def test_a_token_used_for_something_else_is_refused(cast, other):
    circuits.force_close(**_order(cast.search_api, token="t-1"))
    dependency = getattr(cast, other.get("dependency", "search_api"))
    order = _order(dependency, token="t-1")
    if "action" in other:
        order |= {"until": clock.now() + HOUR}

    with pytest.raises(Refused) as refused:
        getattr(circuits, other.get("action", "force_close"))(**order)
    assert refused.value.code == "token_reused"


def test_probe_now_makes_it_due_at_once_and_names_who_asked(cast, row_of, add_probe, set_policy):
    add_probe(cast.search_api)
    set_policy(cast.search_api, settle_s=0)
    for session in cast.sessions[:2]:
        observe(session, cast.search_api, failures=10)
    circuits.consider(dependency_id=cast.search_api.pk, now=clock.now())

    circuits.probe_now(**_order(cast.search_api, reason=""))

    (granted,) = circuits.claim_rounds(now=clock.now())
    assert granted.requested_by == "otto"
    assert row_of(cast.search_api).probe_requested_by == ""
    with pytest.raises(Refused, match="in flight"):
        circuits.probe_now(**_order(cast.search_api, reason=""))


def _open_later(cast, dependency, row_of):
    """Open, and due in an hour."""
    circuits.hold_open(**_hold(dependency))
    circuits.release(**_order(dependency))
    circuits.hear_wait(dependency_id=dependency.pk, until=clock.now() + HOUR, now=clock.now())
    assert row_of(dependency).due_at > clock.now()


def test_probe_now_without_a_probe_lets_the_first_later_run_test_it(cast, row_of):
    _open_later(cast, cast.search_api, row_of)

    circuits.probe_now(**_order(cast.search_api))

    row = row_of(cast.search_api)
    assert row.due_at <= clock.now()
    assert row.probe_requested_by == "", "the next probe, if one is ever set up, is not said to be otto's"


@pytest.mark.parametrize(
    ("dependency", "values", "mend"),
    [("payments", {}, "confirm the class of a harmless tool"), ("search_api", {"permits": False}, "switch permits on")],
)
def test_probe_now_is_refused_where_nothing_can_test_and_says_what_to_do(
    cast, row_of, set_policy, dependency, values, mend
):
    there = getattr(cast, dependency)
    if values:
        set_policy(there, **values)
    _open_later(cast, there, row_of)

    with pytest.raises(Refused) as refused:
        circuits.probe_now(**_order(there))

    assert refused.value.code == "no_probe"
    assert mend in refused.value.mend
    assert "set up a probe" in refused.value.mend
    assert row_of(there).due_at > clock.now()


def test_acknowledging_keeps_the_first_name_and_ends_with_the_outage(cast, row_of):
    circuits.hold_open(**_hold(cast.search_api))
    circuits.acknowledge(**_order(cast.search_api))
    circuits.acknowledge(**_order(cast.search_api, actor="ada"))
    assert row_of(cast.search_api).acknowledged_by == "otto"

    circuits.force_close(**_order(cast.search_api))
    assert row_of(cast.search_api).acknowledged_at is None
