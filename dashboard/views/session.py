"""Signing in and out."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dashboard.forms import SignInForm


class SignIn(LoginView):
    """Name and password, and back to where the person wanted to go."""

    template_name = "dashboard/session/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def form_invalid(self, form: Any) -> HttpResponse:
        """What was wrong, with the status of a form that was."""
        return self.render_to_response(self.get_context_data(form=form), status=422)


class SignOut(LogoutView):
    """Ends the session; only by POST."""


def locked_out(request: HttpRequest, response: HttpResponse | None = None, credentials: Any = None) -> HttpResponse:
    """Too many wrong passwords: say so, and for how long."""
    return render(request, "dashboard/session/locked_out.html", {"user": None}, status=429)
