"""Who reports: environments, agents, their keys, workers and sessions."""

from __future__ import annotations

from typing import Any

import django_filters
from rest_framework import serializers

from controlplane import clock
from controlplane.api import filters
from controlplane.api.base import Many, One
from controlplane.api.contract import edits, writes
from controlplane.api.fields import Flag, Said, Text
from controlplane.api.lookup import given
from controlplane.models import Agent, AgentKey, Environment, Session, Worker
from controlplane.permissions import ADMINISTER, QUARANTINE
from controlplane.selectors import lists, named
from controlplane.services import access, catalogue, removal

QUARANTINED = ("quarantined_at", "quarantined_by", "quarantine_reason")


class EnvironmentOut(serializers.ModelSerializer[Environment]):
    """prod, staging."""

    class Meta:
        model = Environment
        fields = ("slug", "name", "protected", "created_at")


class EnvironmentCreate(Said):
    """A new environment."""

    slug = Text(max_length=60)
    name = Text(max_length=100)
    protected = Flag(default=False)


class EnvironmentEdit(Said):
    """What may change of one."""

    name = Text(max_length=100)
    protected = Flag()


class Environments(Many):
    """The environments."""

    queryset = lists.environments()
    noun, inside, shape = "environment", None, EnvironmentOut
    orders = {"slug": "slug", "created_at": "created_at"}

    @writes(ADMINISTER, takes=EnvironmentCreate, gives=EnvironmentOut, status=201)
    def post(self, said: dict[str, Any]) -> Environment:
        """Make an environment."""
        return catalogue.create_environment(**said, actor=self.actor(), now=clock.now())


class OneEnvironment(One):
    """One environment."""

    queryset = lists.environments()
    noun, inside, shape = "environment", None, EnvironmentOut
    by = {"slug": "environment"}

    @edits(ADMINISTER, takes=EnvironmentEdit, gives=EnvironmentOut)
    def patch(self, row: Environment, said: dict[str, Any]) -> Environment:
        """Change its name or protection."""
        return catalogue.edit_environment(environment=row, changes=said, actor=self.actor())

    @edits(ADMINISTER)
    def delete(self, row: Environment, said: dict[str, Any]) -> None:
        """Remove one in which nothing is left."""
        removal.remove_environment(environment=row, actor=self.actor())


class AgentOut(serializers.ModelSerializer[Agent]):
    """A named agent application."""

    class Meta:
        model = Agent
        fields = ("slug", "name", "owner", "created_at")


class AgentCreate(Said):
    """A new agent."""

    slug = Text(max_length=60)
    name = Text(max_length=100)
    owner = Text(max_length=100, allow_blank=True, default="")


class AgentEdit(Said):
    """What may change of one."""

    name = Text(max_length=100)
    owner = Text(max_length=100, allow_blank=True)


class Agents(Many):
    """The agents of an environment."""

    queryset = lists.agents()
    noun, shape = "agent", AgentOut
    orders = {"slug": "slug", "created_at": "created_at"}

    @writes(ADMINISTER, takes=AgentCreate, gives=AgentOut, status=201)
    def post(self, said: dict[str, Any]) -> Agent:
        """Name an agent; it reports once it has a key."""
        return catalogue.create_agent(environment=self.environment, **said, actor=self.actor(), now=clock.now())


class OneAgent(One):
    """One agent."""

    queryset = lists.agents()
    noun, shape = "agent", AgentOut
    by = {"slug": "agent"}

    @edits(ADMINISTER, takes=AgentEdit, gives=AgentOut)
    def patch(self, row: Agent, said: dict[str, Any]) -> Agent:
        """Change its name or owner."""
        return catalogue.edit_agent(agent=row, changes=said, actor=self.actor())

    @edits(ADMINISTER)
    def delete(self, row: Agent, said: dict[str, Any]) -> None:
        """Remove one that never reported and has no key in force."""
        removal.remove_agent(agent=row, actor=self.actor())


class KeyOut(serializers.ModelSerializer[AgentKey]):
    """A key without its secret."""

    agent = serializers.CharField(source="agent.slug")

    class Meta:
        model = AgentKey
        fields = ("prefix", "agent", "label", "created_at", "created_by", "last_used_at", "revoked_at", *QUARANTINED)


class IssuedKeyOut(serializers.Serializer[Any]):
    """A new key with its token, shown this once."""

    key = KeyOut()
    token = serializers.CharField(help_text="rcl_PREFIX_SECRET; stored as a hash only.")


class KeyCreate(Said):
    """Whose key, and where it is kept."""

    agent = Text(max_length=60)
    label = Text(max_length=100, allow_blank=True, default="")  # type: ignore[assignment]


class Reason(Said):
    """Why."""

    reason = Text(max_length=500)


class OptionalReason(Said):
    """Why, if there is something to say."""

    reason = Text(max_length=500, allow_blank=True, default="")


class KeyFilter(django_filters.FilterSet):
    """Which keys."""

    agent = filters.Named(named.agent, "agent")
    revoked = filters.IsSet("revoked_at")
    quarantined = filters.IsSet("quarantined_at")


class Keys(Many):
    """The keys of an environment's agents."""

    queryset = lists.keys()
    noun, shape = "key", KeyOut
    filterset_class = KeyFilter
    orders = {"created_at": "-created_at", "prefix": "prefix"}

    @writes(ADMINISTER, takes=KeyCreate, gives=IssuedKeyOut, status=201, name="issue_key")
    def post(self, said: dict[str, Any]) -> dict[str, Any]:
        """Issue a key; its token is shown this once."""
        agent = given(named.agent, self.environment, said["agent"], "agent")
        key, token = access.issue_key(
            environment=self.environment, agent=agent, label=said["label"], actor=self.actor(), now=clock.now()
        )
        return {"key": key, "token": token}


class OneKey(One):
    """One key."""

    queryset = lists.keys()
    noun, shape = "key", KeyOut
    by = {"prefix": "prefix"}


class RevokeKey(OneKey):
    """The end of a key."""

    http_method_names = ["post"]

    @writes(ADMINISTER, takes=OptionalReason, gives=KeyOut, name="revoke_key")
    def post(self, said: dict[str, Any]) -> AgentKey:
        """End it for good: its processes keep their last documents and decide alone."""
        access.revoke_key(key=self.find(), actor=self.actor(), reason=said["reason"], now=clock.now())
        return self.find()  # type: ignore[no-any-return]


class QuarantineKey(OneKey):
    """A key whose word does not count."""

    http_method_names = ["post"]

    @writes(QUARANTINE, takes=Reason, gives=KeyOut, name="quarantine_key")
    def post(self, said: dict[str, Any]) -> AgentKey:
        """From now on what it reports is recorded and not counted."""
        access.quarantine_key(key=self.find(), actor=self.actor(), reason=said["reason"], now=clock.now())
        return self.find()  # type: ignore[no-any-return]


class LiftKey(OneKey):
    """A key that counts again."""

    http_method_names = ["post"]

    @writes(QUARANTINE, takes=OptionalReason, gives=KeyOut, name="lift_key_quarantine")
    def post(self, said: dict[str, Any]) -> AgentKey:
        """Count what it reports again."""
        access.lift_quarantine(target=self.find(), actor=self.actor(), reason=said["reason"], now=clock.now())
        return self.find()  # type: ignore[no-any-return]


class WorkerOut(serializers.ModelSerializer[Worker]):
    """Where an agent runs."""

    agent = serializers.CharField(source="agent.slug")
    key = serializers.CharField(source="key.prefix")

    class Meta:
        model = Worker
        fields = ("id", "instance", "agent", "key", "first_seen_at", "last_seen_at", *QUARANTINED)


class WorkerFilter(django_filters.FilterSet):
    """Which workers."""

    agent = filters.Named(named.agent, "agent")
    instance = filters.text("instance")
    quarantined = filters.IsSet("quarantined_at")
    seen_since = filters.since("last_seen_at")


class Workers(Many):
    """Where the agents of an environment run."""

    queryset = lists.workers()
    noun, shape = "worker", WorkerOut
    filterset_class = WorkerFilter
    orders = {"last_seen_at": "-last_seen_at", "instance": "instance", "first_seen_at": "first_seen_at"}


class OneWorker(One):
    """One worker."""

    queryset = lists.workers()
    noun, shape = "worker", WorkerOut
    by = {"pk": "worker"}


class QuarantineWorker(OneWorker):
    """A worker whose word does not count."""

    http_method_names = ["post"]

    @writes(QUARANTINE, takes=Reason, gives=WorkerOut, name="quarantine_worker")
    def post(self, said: dict[str, Any]) -> Worker:
        """From now on what it reports is recorded and not counted."""
        access.quarantine_worker(worker=self.find(), actor=self.actor(), reason=said["reason"], now=clock.now())
        return self.find()  # type: ignore[no-any-return]


class LiftWorker(OneWorker):
    """A worker that counts again."""

    http_method_names = ["post"]

    @writes(QUARANTINE, takes=OptionalReason, gives=WorkerOut, name="lift_worker_quarantine")
    def post(self, said: dict[str, Any]) -> Worker:
        """Count what it reports again."""
        access.lift_quarantine(target=self.find(), actor=self.actor(), reason=said["reason"], now=clock.now())
        return self.find()  # type: ignore[no-any-return]


class SessionOut(serializers.ModelSerializer[Session]):
    """One process life, and the documents it runs by."""

    agent = serializers.CharField(source="worker.agent.slug")
    instance = serializers.CharField(source="worker.instance")  # type: ignore[assignment]
    worker = serializers.IntegerField(source="worker_id")

    class Meta:
        model = Session
        fields = (
            "id", "agent", "instance", "worker", "started_at", "last_seen_at", "last_seq", "sdk", "pid", "feed",
            "config_epoch", "config_version", "circuits_epoch", "circuits_version", "stale_s",
        )  # fmt: skip


class SessionFilter(django_filters.FilterSet):
    """Which sessions."""

    agent = filters.Named(named.agent, "worker__agent")
    worker = filters.Whole(field_name="worker_id")
    seen_since = filters.since("last_seen_at")


class Sessions(Many):
    """Process lives of an environment's workers."""

    queryset = lists.sessions()
    noun, inside, shape = "session", "worker__environment", SessionOut
    filterset_class = SessionFilter
    orders = {"last_seen_at": "-last_seen_at", "started_at": "started_at"}
