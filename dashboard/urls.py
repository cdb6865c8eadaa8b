"""The dashboard's addresses."""

from django.urls import path, register_converter

from dashboard import names
from dashboard.views import actions, board, circuit, probe, runs, session, settings

register_converter(names.NameConverter, "name")

app_name = "dashboard"

_CIRCUIT = "circuits/<slug:environment>/<name:dependency>"
_HERE = "settings/<slug:environment>"

urlpatterns = [
    path("", board.board, name="board"),
    path("sign-in/", session.SignIn.as_view(), name="sign-in"),
    path("sign-out/", session.SignOut.as_view(), name="sign-out"),
    path(f"{_CIRCUIT}/", circuit.circuit, name="circuit"),
    path(f"{_CIRCUIT}/probe/", probe.probe, name="probe"),
    path(f"{_CIRCUIT}/<slug:action>/", actions.action, name="action"),
    path("runs/", runs.runs, name="runs"),
    path("runs/<uuid:run_id>/", runs.run, name="run"),
    path("settings/", settings.settings, name="settings"),
    path(f"{_HERE}/workers/<int:pk>/quarantine/", settings.quarantine_worker, name="quarantine-worker"),
    path(f"{_HERE}/workers/<int:pk>/lift/", settings.lift_worker, name="lift-worker"),
    path(f"{_HERE}/keys/issue/", settings.issue_key, name="issue-key"),
    path(f"{_HERE}/keys/<int:pk>/quarantine/", settings.quarantine_key, name="quarantine-key"),
    path(f"{_HERE}/keys/<int:pk>/lift/", settings.lift_key, name="lift-key"),
    path(f"{_HERE}/keys/<int:pk>/revoke/", settings.revoke_key, name="revoke-key"),
    path(f"{_HERE}/channels/add/", settings.add_channel, name="add-channel"),
    path(f"{_HERE}/channels/<int:pk>/remove/", settings.remove_channel, name="remove-channel"),
    path(f"{_HERE}/networks/allow/", settings.allow_network, name="allow-network"),
    path(f"{_HERE}/networks/<int:pk>/close/", settings.close_network, name="close-network"),
]
