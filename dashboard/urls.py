"""The dashboard's addresses."""

from django.urls import path, register_converter

from controlplane.names import NameConverter
from dashboard.views import (
    actions,
    alerts,
    board,
    circuit,
    exports,
    finding,
    people,
    policy,
    probe,
    reviews,
    runs,
    session,
    settings,
    styleguide,
    tools,
    trips,
    vendor,
)

register_converter(NameConverter, "name")

app_name = "dashboard"

_CIRCUIT = "circuits/<slug:environment>/<name:dependency>"
_TOOL = "tools/<slug:environment>/<name:tool>"
_HERE = "settings/<slug:environment>"
_ALERTS = "alerts/<slug:environment>"
_PERSON = "settings/people/<int:pk>"

urlpatterns = [
    path("", board.board, name="board"),
    path("find/", finding.find, name="find"),
    path("styleguide/", styleguide.styleguide, name="styleguide"),
    path("shortcuts/", finding.shortcuts, name="shortcuts"),
    path("sign-in/", session.SignIn.as_view(), name="sign-in"),
    path("sign-out/", session.SignOut.as_view(), name="sign-out"),
    path(f"{_CIRCUIT}/", circuit.circuit, name="circuit"),
    path(f"{_CIRCUIT}/policy/", policy.dependency_policy, name="dependency-policy"),
    path(f"{_CIRCUIT}/probe/", probe.probe, name="probe"),
    path(f"{_CIRCUIT}/probe/remove/", probe.remove_probe, name="remove-probe"),
    path(f"{_CIRCUIT}/probe/tests/<uuid:test_id>/", probe.probe_test, name="probe-test"),
    path(f"{_CIRCUIT}/vendor-status/", vendor.edit, name="vendor-status"),
    path(f"{_CIRCUIT}/<slug:action>/", actions.action, name="action"),
    path("trips.csv", exports.export_trips, name="export-trips"),
    path("runs.csv", exports.export_runs, name="export-runs"),
    path("audit.csv", exports.export_audit, name="export-audit"),
    path("outages.csv", exports.export_outages, name="export-outages"),
    path("trips/", trips.trips, name="trips"),
    path("trips/<uuid:trip_id>/", trips.trip, name="trip"),
    path("trips/<uuid:trip_id>/mark-false/", trips.mark_false, name="mark-false"),
    path("trips/<uuid:trip_id>/unmark-false/", trips.unmark_false, name="unmark-false"),
    path("runs/", runs.runs, name="runs"),
    path("runs/<uuid:run_id>/", runs.run, name="run"),
    path("runs/<uuid:run_id>/why/<name:tool>/", runs.why, name="why"),
    path("tools/", tools.tools, name="tools"),
    path(f"{_TOOL}/", tools.tool, name="tool"),
    path(f"{_TOOL}/edit/", tools.edit_tool, name="edit-tool"),
    path(f"{_TOOL}/confirm/", tools.confirm_class, name="confirm-class"),
    path(f"{_TOOL}/remove/", tools.remove_tool, name="remove-tool"),
    path(f"{_TOOL}/policy/", policy.tool_policy, name="tool-policy"),
    path("policies/<slug:environment>/", policy.layers, name="layers"),
    path("policies/<slug:environment>/<slug:layer>/<slug:part>/", policy.layer_policy, name="layer-policy"),
    path("reviews/", reviews.waiting, name="reviews"),
    path("reviews/<slug:environment>/<int:pk>/", reviews.review, name="review"),
    path("reviews/<slug:environment>/<int:pk>/decide/", reviews.decide, name="decide"),
    path("alerts/", alerts.alerts, name="alerts"),
    path(f"{_ALERTS}/acknowledge/", alerts.acknowledge, name="acknowledge-alerts"),
    path(f"{_ALERTS}/hand-back/", alerts.hand_back, name="hand-back-alerts"),
    path(f"{_ALERTS}/channels/add/", alerts.add_channel, name="add-channel"),
    path(f"{_ALERTS}/channels/<int:pk>/", alerts.edit_channel, name="edit-channel"),
    path(f"{_ALERTS}/channels/<int:pk>/test/", alerts.test_channel, name="test-channel"),
    path(f"{_ALERTS}/channels/<int:pk>/remove/", alerts.remove_channel, name="remove-channel"),
    path(f"{_ALERTS}/messages/<uuid:delivery_id>/resend/", alerts.resend, name="resend"),
    path("settings/", settings.settings, name="settings"),
    path("settings/people/", people.people, name="people"),
    path("settings/people/add/", people.add_person, name="add-person"),
    path(f"{_PERSON}/role/", people.change_role, name="change-role"),
    path(f"{_PERSON}/switch/", people.switch_person, name="switch-person"),
    path(f"{_PERSON}/password/", people.new_password, name="new-password"),
    path("settings/audit/", people.audit, name="audit"),
    path(f"{_HERE}/agents/add/", settings.add_agent, name="add-agent"),
    path(f"{_HERE}/agents/<slug:agent>/remove/", settings.remove_agent, name="remove-agent"),
    path(f"{_HERE}/agents/<slug:agent>/heard/", settings.heard, name="heard"),
    path(f"{_HERE}/protection/", settings.protection, name="protection"),
    path(f"{_HERE}/remove/", settings.remove_environment, name="remove-environment"),
    path(f"{_HERE}/workers/<int:pk>/quarantine/", settings.quarantine_worker, name="quarantine-worker"),
    path(f"{_HERE}/workers/<int:pk>/lift/", settings.lift_worker, name="lift-worker"),
    path(f"{_HERE}/keys/issue/", settings.issue_key, name="issue-key"),
    path(f"{_HERE}/keys/<int:pk>/quarantine/", settings.quarantine_key, name="quarantine-key"),
    path(f"{_HERE}/keys/<int:pk>/lift/", settings.lift_key, name="lift-key"),
    path(f"{_HERE}/keys/<int:pk>/revoke/", settings.revoke_key, name="revoke-key"),
    path(f"{_HERE}/networks/allow/", settings.allow_network, name="allow-network"),
    path(f"{_HERE}/control-address/", settings.control_address, name="control-address"),
    path(f"{_HERE}/networks/<int:pk>/close/", settings.close_network, name="close-network"),
]
