"""People who sign in: for admins."""

from __future__ import annotations

from typing import Any

import django_filters
from rest_framework import serializers

from controlplane.api import filters
from controlplane.api.base import Many, One
from controlplane.api.contract import edits, writes
from controlplane.api.fields import Choice, Said, Text
from controlplane.models import User
from controlplane.models.access import Role
from controlplane.permissions import ADMINISTER
from controlplane.selectors import lists
from controlplane.services import people


class PersonOut(serializers.ModelSerializer[User]):
    """Somebody who may sign in, or no longer may."""

    email = serializers.CharField(help_text="Empty where none is known.")
    active = serializers.BooleanField(source="is_active")
    last_signed_in_at = serializers.DateTimeField(source="last_login", allow_null=True)

    class Meta:
        model = User
        fields = ("username", "role", "email", "active", "last_signed_in_at")


class AddedPersonOut(serializers.Serializer[Any]):
    """A new person with a first password, shown this once."""

    person = PersonOut()
    password = serializers.CharField(help_text="Hand it over; it is stored as a hash only.")


class PersonCreate(Said):
    """What they sign in with, and what they are trusted with."""

    username = Text(max_length=150)
    role = Choice(choices=Role.values)
    email = Text(max_length=254, allow_blank=True, default="")


class PersonEdit(Said):
    """What they are trusted with from now on."""

    role = Choice(choices=Role.values)


class PersonFilter(django_filters.FilterSet):
    """Which people."""

    role = filters.word(*Role.values)
    active = filters.Flag(field_name="is_active")


class People(Many):
    """Everybody with an account."""

    queryset = lists.people()
    noun, inside, shape = "person", None, PersonOut
    reading = ADMINISTER
    filterset_class = PersonFilter
    orders = {"username": "username"}

    def operation(self, method: str | None = None) -> str:
        """More than one person are people."""
        return super().operation(method).replace("list_persons", "list_people")

    @writes(ADMINISTER, takes=PersonCreate, gives=AddedPersonOut, status=201, name="add_person")
    def post(self, said: dict[str, Any]) -> dict[str, Any]:
        """Let somebody in; the first password is shown this once."""
        person, password = people.add(**said, actor=self.actor())
        return {"person": person, "password": password}


class OnePerson(One):
    """One person."""

    queryset = lists.people()
    noun, inside, shape = "person", None, PersonOut
    reading = ADMINISTER
    by = {"username": "person"}

    @edits(ADMINISTER, takes=PersonEdit, gives=PersonOut, name="change_role")
    def patch(self, row: User, said: dict[str, Any]) -> User:
        """Trust them with something else: it holds from the next click on, and for their tokens too."""
        if "role" in said:
            people.change_role(person=row, **said, actor=self.actor())
        return self.find()  # type: ignore[no-any-return]


class Deactivate(OnePerson):
    """The end of somebody's access."""

    http_method_names = ["post"]

    @edits(ADMINISTER, gives=PersonOut, name="switch_off_person")
    def post(self, row: User, said: dict[str, Any]) -> User:
        """End their access at once: their sign-ins and tokens end for good; what they did stays on record."""
        people.switch_off(person=row, actor=self.actor())
        return self.find()  # type: ignore[no-any-return]


class Activate(OnePerson):
    """Somebody who comes back."""

    http_method_names = ["post"]

    @edits(ADMINISTER, gives=PersonOut, name="switch_on_person")
    def post(self, row: User, said: dict[str, Any]) -> User:
        """Let them sign in again, with the old password and role; they make new tokens."""
        people.switch_on(person=row, actor=self.actor())
        return self.find()  # type: ignore[no-any-return]
