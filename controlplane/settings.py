"""Settings, all from the environment; every secret may come from a file named by NAME_FILE."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import structlog
from environs import Env, FileAwareEnv
from recloser import __version__

env: Env = FileAwareEnv(strip_whitespace=True)

BASE_DIR = Path(__file__).resolve().parent.parent
VERSION = __version__

DEBUG = env.bool("RECLOSER_DEBUG", False)
TEST_CLOCK = env.bool("RECLOSER_TEST_CLOCK", False)
"""For `recloser conformance --url`: the clock is moved by hand. Only where the database's name begins with `test`."""
SECRET_KEY = env.str("RECLOSER_SECRET_KEY", "")
FIELD_KEYS: list[str] = env.list("RECLOSER_FIELD_KEYS", [])
"""Fernet keys for secrets at rest, newest first; older ones only decrypt."""
EGRESS_PROXY = env.str("RECLOSER_EGRESS_PROXY", "")
"""http://user:password@proxy.example.com:3128: probes and webhooks connect through it, to addresses that we checked."""
ALLOWED_HOSTS = env.list("RECLOSER_ALLOWED_HOSTS", ["127.0.0.1", "localhost", "[::1]"])
CONTROL_ADDRESS = env.str("RECLOSER_CONTROL_ADDRESS", "")
"""`host:port`, asked after a bad probe, to tell the prober's own fault; environments may name another. Empty: off."""

VANTAGE = env.str("RECLOSER_VANTAGE", "")
"""Of a Celery worker: the name of the place where it stands. It takes the probes of that place and nothing else."""

PUBLIC_URL = env.str("RECLOSER_PUBLIC_URL", "http://127.0.0.1:8000").rstrip("/")
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL] if PUBLIC_URL.startswith("https://") else []

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "servestatic.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "axes",
    "rest_framework",
    "controlplane",
    "dashboard",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    # Before whatever may answer by itself: files and refusals are guarded like pages.
    "csp.middleware.CSPMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "controlplane.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ASGI_APPLICATION = "controlplane.asgi.application"

DATABASE_URL = env.str("DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/recloser")
REDIS_URL = env.str("REDIS_URL", "redis://127.0.0.1:6379/0")


def _database(url: str) -> dict[str, object]:
    """Django's form of a libpq URL; `?host=/path` is a Unix socket, other parameters go to libpq as they are."""
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    host = query.pop("host", parts.hostname or "")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "HOST": host,
        "PORT": parts.port or "",
        "OPTIONS": {"pool": {"min_size": 1, "max_size": 8, "timeout": 5}, **query, "options": _session(query)},
    }


IDLE_IN_TRANSACTION_S = 30
"""A process that stops in the middle of a transaction holds its locks no longer than this."""


def _session(query: dict[str, str]) -> str:
    """What every session of Postgres begins with; what the address itself says comes later, and wins."""
    return f"-c idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_S}s {query.get('options', '')}".strip()


def _broker(url: str) -> str:
    """Celery's form of a Redis URL: kombu wants its own word for a Unix socket."""
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return url
    database = parse_qs(parts.query).get("db", ["0"])[-1]
    return f"redis+socket://{parts.path}?virtual_host={database}"


DATABASES = {"default": _database(DATABASE_URL)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CELERY_BROKER_URL = _broker(REDIS_URL)
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a Celery worker outlasts any absence of its broker
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 60,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
    "socket_timeout": 5,
    "socket_connect_timeout": 2,
}
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_PUBLISH_RETRY = False

AUTH_USER_MODEL = "controlplane.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "controlplane.permissions.RoleBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "dashboard:sign-in"
LOGIN_REDIRECT_URL = "dashboard:board"
LOGOUT_REDIRECT_URL = "dashboard:sign-in"
AXES_FAILURE_LIMIT = 8
AXES_COOLOFF_TIME = 0.25
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_VERBOSE = False
AXES_LOCKOUT_CALLABLE = "dashboard.views.session.locked_out"

SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PUBLIC_URL.startswith("https://")
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
        "manifest-src": ["'self'"],
    }
}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True
STATIC_URL = "/static/"
STATIC_ROOT = env.path("RECLOSER_STATIC_ROOT", BASE_DIR / "staticfiles")
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "servestatic.storage.CompressedManifestStaticFilesStorage"},
}

EMAIL_URL = env.str("RECLOSER_EMAIL_URL", "")
"""smtp://user:password@host:port (smtps:// for TLS); without it e-mail channels say so and fail."""
EMAIL_FROM = env.str("RECLOSER_EMAIL_FROM", "recloser@localhost")

KEEP_OBSERVATIONS_HOURS = env.int("RECLOSER_KEEP_OBSERVATIONS_HOURS", 48)
"""Raw rows; at least 48, which a streak may reach back. Whole days are dropped, and only what is rolled up."""
KEEP_MINUTES_DAYS = env.int("RECLOSER_KEEP_MINUTES_DAYS", 14)
KEEP_HOURS_DAYS = env.int("RECLOSER_KEEP_HOURS_DAYS", 366)
KEEP_AUDIT_DAYS = env.int("RECLOSER_KEEP_AUDIT_DAYS", 400)
KEEP_RUNS_DAYS = env.int("RECLOSER_KEEP_RUNS_DAYS", 366)
"""Degraded and failed runs, and a share of the rest; their figures by the hour are kept for ever."""
KEEP_ALL_RUNS_DAYS = env.int("RECLOSER_KEEP_ALL_RUNS_DAYS", 14)
KEEP_RUNS_SHARE = env.float("RECLOSER_KEEP_RUNS_SHARE", 0.1)
"""Of runs that lacked nothing and ended well, the part that is kept beyond."""
KEEP_STEP_LOGS_DAYS = env.int("RECLOSER_KEEP_STEP_LOGS_DAYS", 90)

REST_FRAMEWORK: dict[str, object] = {"DEFAULT_AUTHENTICATION_CLASSES": [], "UNAUTHENTICATED_USER": None}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": structlog.stdlib.ProcessorFormatter,
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
            ],
            "foreign_pre_chain": [
                structlog.stdlib.add_log_level,
                structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=True),
            ],
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.str("RECLOSER_LOG_LEVEL", "INFO")},
    "loggers": {
        "httpx": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
        "axes": {"level": "WARNING"},
        "uvicorn.access": {"level": "WARNING"},
    },
}
structlog.configure(
    processors=[
        structlog.stdlib.filter_by_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=True),
        structlog.processors.format_exc_info,
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    cache_logger_on_first_use=True,
)
