"""E-mail through the one server that the installation names; the Message-ID is the delivery's own."""

import smtplib
import ssl
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from urllib.parse import SplitResult, unquote, urlsplit

from django.conf import settings

from controlplane.services.alerts import Message, Result

TIME_LIMIT_S = 15.0
PORTS = {"smtp": 25, "smtps": 465}


def send(message: Message) -> Result:
    """Hand one message over; the server's refusals come back by their number, not in its words."""
    server = urlsplit(settings.EMAIL_URL)
    if server.scheme not in PORTS or not server.hostname:
        return Result("no mail server: set RECLOSER_EMAIL_URL, such as smtp://user:password@mail.example.com:587")
    try:
        with _connected(server) as smtp:
            smtp.send_message(composed(message))
    except _InTheClear:
        return Result("the mail server offers no encryption, so the password was not sent: use STARTTLS, or smtps://")
    except smtplib.SMTPRecipientsRefused as refused:
        return Result(f"the mail server refused the recipient ({_codes(refused)})")
    except smtplib.SMTPResponseException as refused:
        return Result(f"the mail server answered {refused.smtp_code}")
    except (OSError, smtplib.SMTPException) as error:
        return Result(f"the mail server cannot be used ({type(error).__name__})")
    return Result()


def composed(message: Message) -> EmailMessage:
    """The mail itself: line breaks cannot enter a header, whatever a dependency is called."""
    mail = EmailMessage()
    mail["Subject"] = " ".join(str(message.body["title"]).split())[:200]
    mail["From"] = settings.EMAIL_FROM
    mail["To"] = message.target
    mail["Date"] = format_datetime(message.created_at)
    mail["Message-ID"] = f"<{message.id}@{Address(addr_spec=settings.EMAIL_FROM).domain}>"
    mail["X-Recloser-Incident"] = str(message.body["incident"])
    mail.set_content(str(message.body["text"]))
    return mail


class _InTheClear(Exception):
    """A password would be sent for everyone on the way to read."""


def _connected(server: SplitResult) -> smtplib.SMTP:
    """A session, encrypted where the server can, signed in where a name is given."""
    host, port = server.hostname or "", server.port or PORTS[server.scheme]
    context = ssl.create_default_context()
    if server.scheme == "smtps":
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=TIME_LIMIT_S, context=context)
    else:
        smtp = smtplib.SMTP(host, port, timeout=TIME_LIMIT_S)
    try:
        _prepare(smtp, server, context)
    except BaseException:
        smtp.close()
        raise
    return smtp


def _prepare(smtp: smtplib.SMTP, server: SplitResult, context: ssl.SSLContext) -> None:
    smtp.ehlo()
    encrypted = server.scheme == "smtps"
    if not encrypted and smtp.has_extn("starttls"):
        smtp.starttls(context=context)
        smtp.ehlo()
        encrypted = True
    if server.username:
        if not encrypted:
            raise _InTheClear
        smtp.login(unquote(server.username), unquote(server.password or ""))


def _codes(refused: smtplib.SMTPRecipientsRefused) -> str:
    return ", ".join(str(code) for code, _ in refused.recipients.values())
