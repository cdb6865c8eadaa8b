"""Who may do what. Four roles, one table, checked on the server for every action."""

from typing import Any

from django.contrib.auth.backends import ModelBackend

from controlplane.models.access import Role

VIEW = "controlplane.view"
OPERATE = "controlplane.operate_circuit"
EDIT_POLICY = "controlplane.edit_policy"
QUARANTINE = "controlplane.quarantine"
ADMINISTER = "controlplane.administer"

GRANTS: dict[str, frozenset[str]] = {
    Role.VIEWER: frozenset({VIEW}),
    Role.ON_CALL: frozenset({VIEW, OPERATE, QUARANTINE}),
    Role.PRODUCT_OWNER: frozenset({VIEW, EDIT_POLICY}),
    Role.ADMIN: frozenset({VIEW, OPERATE, QUARANTINE, EDIT_POLICY, ADMINISTER}),
}


class RoleBackend(ModelBackend):
    """Django's password check, with permissions that come from the role alone."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        """True if the active user's role grants `perm`."""
        return bool(user_obj.is_active) and perm in GRANTS.get(user_obj.role, frozenset())
