"""The API's addresses. Things that people call by name are named so; the rest goes by number."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path, re_path, register_converter

from controlplane.api.schema import schema
from controlplane.api.views import (
    access,
    alerts,
    audit,
    circuits,
    history,
    nowhere,
    own,
    people,
    policies,
    probes,
    reviews,
    runs,
    tool_reviews,
    tools,
    vendor_status,
)
from controlplane.names import NameConverter

register_converter(NameConverter, "segment")

app_name = "api"

_DEPENDENCY = "dependencies/<segment:dependency>"
_CIRCUIT = "circuits/<segment:dependency>"

_environment: list[URLPattern | URLResolver] = [
    path("agents", access.Agents.as_view()),
    path("agents/<slug:agent>", access.OneAgent.as_view()),
    path("keys", access.Keys.as_view()),
    path("keys/<slug:prefix>", access.OneKey.as_view()),
    path("keys/<slug:prefix>/revoke", access.RevokeKey.as_view()),
    path("keys/<slug:prefix>/quarantine", access.QuarantineKey.as_view()),
    path("keys/<slug:prefix>/lift", access.LiftKey.as_view()),
    path("workers", access.Workers.as_view()),
    path("workers/<int:worker>", access.OneWorker.as_view()),
    path("workers/<int:worker>/quarantine", access.QuarantineWorker.as_view()),
    path("workers/<int:worker>/lift", access.LiftWorker.as_view()),
    path("sessions", access.Sessions.as_view()),
    path("dependencies", tools.Dependencies.as_view()),
    path(_DEPENDENCY, tools.OneDependency.as_view()),
    path(f"{_DEPENDENCY}/probe", probes.OneProbe.as_view()),
    path(f"{_DEPENDENCY}/probe/tests", probes.TryProbe.as_view()),
    path(f"{_DEPENDENCY}/probe/tests/<uuid:test>", probes.OneProbeTest.as_view()),
    path(f"{_DEPENDENCY}/vendor-status", vendor_status.OneVendorStatus.as_view()),
    path("tools", tools.Tools.as_view()),
    path("tools/<segment:tool>", tools.OneTool.as_view()),
    path("circuits", circuits.Circuits.as_view()),
    path(_CIRCUIT, circuits.OneCircuit.as_view()),
    *(path(f"{_CIRCUIT}/actions/{name}", view.as_view()) for name, view in circuits.ACTIONS.items()),
    path("policies/environment", policies.EnvironmentPolicy.as_view()),
    path("policies/class/<slug:side_effect>", policies.ClassPolicy.as_view()),
    path("policies/dependency/<segment:dependency>", policies.DependencyPolicy.as_view()),
    path("policies/tool/<segment:tool>", policies.ToolPolicy.as_view()),
    path("revisions", policies.Revisions.as_view()),
    path("revisions/<int:revision>", policies.OneRevision.as_view()),
    path("revisions/<int:revision>/actions/roll-back", reviews.RollBack.as_view()),
    path("reviews", reviews.Reviews.as_view()),
    path("reviews/<int:review>", reviews.OneReview.as_view()),
    path("reviews/<int:review>/actions/submit", reviews.SubmitReview.as_view()),
    path("reviews/<int:review>/actions/approve", reviews.ApproveReview.as_view()),
    path("reviews/<int:review>/actions/reject", reviews.RejectReview.as_view()),
    path("reviews/<int:review>/actions/withdraw", reviews.WithdrawReview.as_view()),
    path("tool-reviews", tool_reviews.ToolReviews.as_view()),
    path("tool-reviews/<int:review>", tool_reviews.OneToolReview.as_view()),
    path("tool-reviews/<int:review>/actions/submit", tool_reviews.SubmitToolReview.as_view()),
    path("tool-reviews/<int:review>/actions/approve", tool_reviews.ApproveToolReview.as_view()),
    path("tool-reviews/<int:review>/actions/reject", tool_reviews.RejectToolReview.as_view()),
    path("tool-reviews/<int:review>/actions/withdraw", tool_reviews.WithdrawToolReview.as_view()),
    path("trips", history.Trips.as_view()),
    path("trips/<uuid:trip>", history.OneTrip.as_view()),
    path("trips/<uuid:trip>/actions/mark-false", history.MarkFalse.as_view()),
    path("trips/<uuid:trip>/actions/unmark-false", history.UnmarkFalse.as_view()),
    path("transitions", history.Transitions.as_view()),
    path("transitions/<int:transition>", history.OneTransition.as_view()),
    path("outages", history.Outages.as_view()),
    path("outages/<int:outage>", history.OneOutage.as_view()),
    path("probe-rounds", history.ProbeRounds.as_view()),
    path("runs", runs.Runs.as_view()),
    path("runs/<uuid:run>", runs.OneRun.as_view()),
    path("runs/<uuid:run>/steps", runs.RunSteps.as_view()),
    path("channels", alerts.Channels.as_view()),
    path("channels/<int:channel>", alerts.OneChannel.as_view()),
    path("deliveries", alerts.Deliveries.as_view()),
    path("deliveries/<uuid:delivery>", alerts.OneDelivery.as_view()),
    path("deliveries/<uuid:delivery>/actions/resend", alerts.Resend.as_view()),
    path("audit", audit.EnvironmentAudit.as_view()),
]

described: list[URLPattern | URLResolver] = [
    path("me", own.Me.as_view()),
    path("tokens", own.Tokens.as_view()),
    path("tokens/<slug:prefix>", own.OneToken.as_view()),
    path("tokens/<slug:prefix>/revoke", own.RevokeToken.as_view()),
    path("people", people.People.as_view()),
    path("people/<segment:person>", people.OnePerson.as_view()),
    path("people/<segment:person>/deactivate", people.Deactivate.as_view()),
    path("people/<segment:person>/activate", people.Activate.as_view()),
    path("networks", own.Networks.as_view()),
    path("networks/<int:network>", own.OneNetwork.as_view()),
    path("audit", audit.WholeAudit.as_view()),
    path("environments", access.Environments.as_view()),
    path("environments/<slug:environment>", access.OneEnvironment.as_view()),
    path("environments/<slug:environment>/", include(_environment)),
]

urlpatterns = [path("schema/", schema, name="schema"), *described, re_path("", nowhere.Nowhere.as_view())]
