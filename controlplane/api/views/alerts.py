"""Telling people: channels, and what went through them."""

from __future__ import annotations

from typing import Any

import django_filters
from rest_framework import serializers

from controlplane import clock
from controlplane.api import filters
from controlplane.api.base import Many, One
from controlplane.api.contract import edits, writes
from controlplane.api.fields import Choice, Flag, Said, Text
from controlplane.models import AlertChannel, AlertDelivery
from controlplane.permissions import ADMINISTER, OPERATE
from controlplane.selectors import lists
from controlplane.services import alerts

KINDS = AlertChannel.Kind.values


class ChannelOut(serializers.ModelSerializer[AlertChannel]):
    """Where alerts go; its secret is never shown."""

    signed = serializers.SerializerMethodField(
        help_text="Whether a secret is stored that signs each message, or lets it in."
    )

    class Meta:
        model = AlertChannel
        fields = ("id", "kind", "name", "target", "signed", "enabled", "created_at", "created_by")

    def get_signed(self, row: AlertChannel) -> bool:
        """Whether there is a secret."""
        return bool(row.secret)


class ChannelCreate(Said):
    """Whom to tell, and how. Without a secret a webhook gets one, shown once in the answer."""

    kind = Choice(choices=KINDS)
    name = Text(max_length=100)
    target = Text(max_length=500)
    secret = Text(
        max_length=500,
        required=False,
        help_text="Slack: the incoming webhook's address. PagerDuty: the integration key.",
    )
    enabled = Flag(default=True)


class ChannelEdit(Said):
    """What may change of one."""

    name = Text(max_length=100)
    target = Text(max_length=500)
    secret = Text(max_length=500)
    enabled = Flag()


class MadeChannelOut(serializers.Serializer[Any]):
    """A new channel, and the secret that signs its messages, shown this once."""

    channel = ChannelOut()
    secret = serializers.CharField(allow_blank=True, help_text="A webhook's only; else empty.")


class Channels(Many):
    """The alert channels of an environment."""

    queryset = lists.channels()
    noun, shape = "channel", ChannelOut
    orders = {"name": "name", "created_at": "created_at"}

    @writes(ADMINISTER, takes=ChannelCreate, gives=MadeChannelOut, status=201)
    def post(self, said: dict[str, Any]) -> dict[str, Any]:
        """Add a channel; it is told once when a circuit opens, locks out and closes."""
        channel, secret = alerts.save_channel(environment=self.environment, **said, actor=self.actor(), now=clock.now())
        return {"channel": channel, "secret": secret}


class OneChannel(One):
    """One alert channel."""

    queryset = lists.channels()
    noun, shape = "channel", ChannelOut
    by = {"pk": "channel"}

    @edits(ADMINISTER, takes=ChannelEdit, gives=ChannelOut)
    def patch(self, row: AlertChannel, said: dict[str, Any]) -> AlertChannel:
        """Change its name, address or secret, or switch it off."""
        kept: dict[str, Any] = {"name": row.name, "target": row.target, "enabled": row.enabled, "kind": row.kind}
        changed, _ = alerts.save_channel(
            environment=self.environment, channel=row, **(kept | said), actor=self.actor(), now=clock.now()
        )
        return changed

    @edits(ADMINISTER)
    def delete(self, row: AlertChannel, said: dict[str, Any]) -> None:
        """Remove it; its unsent messages go with it."""
        alerts.remove_channel(channel=row, actor=self.actor())


class DeliveryOut(serializers.ModelSerializer[AlertDelivery]):
    """One message to one channel."""

    channel = serializers.IntegerField(source="channel_id")
    channel_name = serializers.CharField(source="channel.name")
    transition = serializers.IntegerField(source="transition_id", allow_null=True)

    class Meta:
        model = AlertDelivery
        fields = (
            "id", "channel", "channel_name", "event", "incident", "transition", "status", "attempts", "due_at",
            "sent_at", "last_error", "created_at", "body",
        )  # fmt: skip


class DeliveryFilter(django_filters.FilterSet):
    """Which deliveries."""

    status = filters.word(*AlertDelivery.Status.values)
    event = filters.word(*alerts.EVENTS)
    channel = filters.Whole(field_name="channel_id")
    incident = filters.text("incident")
    since = filters.since("created_at")
    until = filters.until("created_at")


class Deliveries(Many):
    """What was sent, waits, or was given up."""

    queryset = lists.deliveries()
    noun, inside, shape = "delivery", "channel__environment", DeliveryOut
    filterset_class = DeliveryFilter
    orders = {"created_at": "-created_at"}


class OneDelivery(One):
    """One message."""

    queryset = lists.deliveries()
    noun, inside, shape = "delivery", "channel__environment", DeliveryOut
    by = {"pk": "delivery"}


class Resend(OneDelivery):
    """A message sent again."""

    http_method_names = ["post"]

    @writes(OPERATE, gives=DeliveryOut, name="resend_delivery")
    def post(self, said: dict[str, Any]) -> AlertDelivery:
        """Send it again, dead or sent: same id, same body, so its receiver keeps one record."""
        return alerts.resend(delivery_id=self.find().pk, actor=self.actor(), now=clock.now())
