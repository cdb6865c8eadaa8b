"""Personal tokens: what a person's scripts say instead of signing in."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from controlplane.models.access import User


class PersonalToken(models.Model):
    """A credential of one person, never worth more than the person's role: stored as a hash, shown once."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, unique=True)
    digest = models.CharField(max_length=64, help_text="sha256 of the secret, hex; the secret has 256 random bits")
    scopes = ArrayField(models.CharField(max_length=40), help_text="permissions without their app, such as view")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True, help_text="to the minute")
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.user.get_username()}/{self.prefix}"
