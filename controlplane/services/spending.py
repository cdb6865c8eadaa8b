"""What probes cost: allowed by the policy, counted by the day, capped."""

from datetime import UTC, datetime
from decimal import Decimal

from django.db.models import F

from controlplane.models import Dependency, ProbeSpend
from controlplane.probe_spec import LlmSpec, Spec
from controlplane.selectors import policies

USED_UP = "today's cap on what probes may cost is used up; it begins anew at midnight UTC"


def forbidden(dependency: Dependency, spec: Spec) -> str:
    """What speaks against a probe that costs money: the policy, until it says otherwise."""
    if not spec.cost_usd or policies.of_dependency(dependency).policy.probe_paid:
        return ""
    return "this asks for something that costs money, which the policy does not allow"


def reserve(*, dependency: Dependency, spec: Spec, now: datetime) -> bool:
    """Book the cost of one probe before it is sent; False if the day's cap does not cover it any more."""
    if not isinstance(spec, LlmSpec) or not spec.cost_usd:
        return True
    cost, cap = Decimal(str(spec.cost_usd)), Decimal(str(spec.daily_cap_usd))
    ProbeSpend.objects.get_or_create(dependency=dependency, day=now.astimezone(UTC).date())
    left = ProbeSpend.objects.filter(dependency=dependency, day=now.astimezone(UTC).date(), spent_usd__lte=cap - cost)
    return bool(left.update(spent_usd=F("spent_usd") + cost, asked=F("asked") + 1))
