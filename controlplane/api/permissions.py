"""May they: the role grants it, and where a token asks, the token was given it too."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from controlplane.api.errors import Problem, unauthenticated
from controlplane.models import PersonalToken, User
from controlplane.permissions import VIEW
from controlplane.services import tokens


class RoleAndScope(BasePermission):
    """One permission a method, named where the method is written; reading needs `view`."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """True, or the refusal that says what is missing."""
        wanted = needed(view, request.method or "GET")
        user = request.user
        if not isinstance(user, User):
            raise unauthenticated("nobody is signed in")
        if not user.has_perm(wanted):
            mend = "ask an admin for a role that may"
            raise Problem(403, "forbidden", f"a {user.role} may not {_short(wanted)}", mend)
        if isinstance(request.auth, PersonalToken) and not tokens.grants(request.auth, wanted):
            mend = f"make a token with the scope {_short(wanted)}"
            raise Problem(403, "out_of_scope", f"this token may not {_short(wanted)}", mend)
        return True


def needed(view: Any, method: str) -> str:
    """The permission that a method of a view asks for."""
    contract = getattr(getattr(view, method.lower(), None), "contract", None)
    return contract.permission if contract else getattr(view, "reading", VIEW)


def may(request: Request, permission: str) -> bool:
    """Whether whoever asks has a permission, by role and by token."""
    granted = request.user.has_perm(permission)
    return granted and (not isinstance(request.auth, PersonalToken) or tokens.grants(request.auth, permission))


def _short(permission: str) -> str:
    return permission.rpartition(".")[2]
