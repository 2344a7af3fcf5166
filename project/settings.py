"""Django settings: every environment variable is read here, once and strictly.

Before it: the environment, or `.drover/run/demo.env` that a running demo leaves.
After it: `project.checks`, which refuses combinations that cannot work.
"""

from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import environ

from project.environment import Environment, is_locked

BASE_DIR = Path(__file__).resolve().parent.parent

env = Environment()
STATE_DIR = Path(env.text("DROVER_STATE_DIR", str(BASE_DIR / ".drover"))).resolve()
# A running demo (and only that) leaves the addresses of its services here, so that
# `manage.py …` in a second terminal reaches them. Real variables always win. The file
# of a killed demo names servers that have ended with it.
DEMO_ENV_FILE = STATE_DIR / "run" / "demo.env"
DEMO_LOCK_FILE = STATE_DIR / "demo.lock"
if not env.flag("DROVER_IGNORE_DEMO", default=False) and is_locked(DEMO_LOCK_FILE):
    environ.Env.read_env(DEMO_ENV_FILE, overwrite=False)


def _redis_database(url: str, number: int) -> str:
    """The same server, another database number."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{number}"))


# --- Django ---------------------------------------------------------------------

DEBUG = env.flag("DEBUG", default=False)
# An unset key is refused by a system check (drover.E001), not here: `manage.py help`
# and `manage.py check` must be able to say so.
SECRET_KEY = env.text("SECRET_KEY", "insecure-unset-secret-key")
ALLOWED_HOSTS = env.words(
    "ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"] if DEBUG else []
)
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "project.adminconfig.DroverAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_celery_beat",
    "project",
    "project.jobs",
    "products",
    "streaming",
    "tracking",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "/"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "project" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- PostgreSQL ------------------------------------------------------------------

# The default address answers nowhere: `manage.py check` (drover.E002) and every
# refused connection then say which variable to set.
DATABASE_URL = env.url("DATABASE_URL", ["postgres", "postgresql"])
DATABASES = {
    "default": environ.Env.db_url_config(
        DATABASE_URL or "postgres://drover@127.0.0.1:1/drover"
    )
    | {
        # Django's psycopg pool does not mix with forked Celery workers; every
        # process keeps its own connection and checks it before use.
        "CONN_MAX_AGE": env.whole("DATABASE_CONN_MAX_AGE", 60, 0, 86_400),
        "CONN_HEALTH_CHECKS": True,
    }
}
DATABASES["default"].setdefault("OPTIONS", {}).setdefault("connect_timeout", 5)

# --- Redis or Valkey -------------------------------------------------------------

REDIS_SCHEMES = ["redis", "rediss"]

REDIS_URL = env.url("REDIS_URL", REDIS_SCHEMES)
_REDIS = REDIS_URL or "redis://127.0.0.1:1"
# One server, four databases: emptying the cache must not free a lock.
REDIS_URLS = {
    "broker": _redis_database(_REDIS, 0),
    "cache": _redis_database(_REDIS, 1),
    "jobs": _redis_database(_REDIS, 2),
    "tracking": env.url("TRACKING_REDIS_URL", REDIS_SCHEMES)
    or _redis_database(_REDIS, 3),
}

CACHES = {
    "default": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": REDIS_URLS["cache"],
        "KEY_PREFIX": "drover",
        "OPTIONS": {"SOCKET_CONNECT_TIMEOUT": 2, "SOCKET_TIMEOUT": 2},
    }
}

CHANNEL_LAYERS = {
    "default": {
        # Only rare control events travel here; positions go through tracking.hub.
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {
            "prefix": "drover",
            # redis-py 8 changed both defaults: an idle socket would be torn down
            # after 5 s, and a burst of joins would exhaust 100 connections.
            "hosts": [
                {
                    "address": REDIS_URLS["tracking"],
                    "socket_timeout": 30,
                    "socket_connect_timeout": 5,
                    "health_check_interval": 25,
                    "max_connections": 5000,
                }
            ],
        },
    }
}

# --- Celery ----------------------------------------------------------------------

CELERY_BROKER_URL = REDIS_URLS["broker"]
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 3600,
    "socket_timeout": 30,
    "socket_connect_timeout": 2,
    "retry_on_timeout": True,
    "max_retries": 1,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# JobRun, ImportRun and DeadLetter are the record; a result backend would be a
# second, weaker truth.
CELERY_TASK_IGNORE_RESULT = True
CELERY_TIMEZONE = "UTC"
CELERY_ENABLE_UTC = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_TASK_REJECT_ON_WORKER_LOST = False
CELERY_BEAT_SCHEDULER = "project.jobs.beat.TickScheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 5
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ROUTES = {
    "products.*": {"queue": "jobs"},
    "tracking.*": {"queue": "jobs"},
    "streaming.*": {"queue": "streaming"},
}

# --- Kafka -----------------------------------------------------------------------

KAFKA_BOOTSTRAP_SERVERS = env.text("KAFKA_BOOTSTRAP_SERVERS")
STREAMING_GROUP = env.text("STREAMING_GROUP", "drover")

# --- Tracking --------------------------------------------------------------------

# Seconds a live position stays without word from its device.
TRACKING_LIVE_TTL_S = 120
TRACKING_TICK_MS = env.whole("TRACKING_TICK_MS", 250, 50, 5_000)
# Accepted fixes that may wait in Redis for the flush; above it the doors answer 503.
TRACKING_BUFFER_LIMIT = env.whole("TRACKING_BUFFER_LIMIT", 200_000, 1_000, 10_000_000)
MAP_STYLE_URL = env.url("MAP_STYLE_URL", ["https", "http"])
MAP_ATTRIBUTION = env.text("MAP_ATTRIBUTION")

# --- Static files ----------------------------------------------------------------

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
# Third-party JavaScript comes from npm at set-up and is never checked in.
_NODE_MODULES = BASE_DIR / "node_modules"
STATICFILES_DIRS = [
    (f"vendor/{package}", folder)
    for package, folder in (
        ("maplibre-gl", _NODE_MODULES / "maplibre-gl" / "dist"),
        ("topojson-client", _NODE_MODULES / "topojson-client" / "dist"),
        ("world-atlas", _NODE_MODULES / "world-atlas"),
    )
    if folder.is_dir()
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    # Not the hashed storage: MapLibre 6 finds its worker by import.meta.url.
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = DEBUG
WHITENOISE_AUTOREFRESH = DEBUG

# --- Security --------------------------------------------------------------------

_HTTPS = env.flag("HTTPS", default=not DEBUG)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = _HTTPS
SECURE_HSTS_SECONDS = env.whole("HSTS_SECONDS", 3600 if _HTTPS else 0, 0, 63_072_000)
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = _HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _HTTPS else None
# Load balancers and Prometheus ask in plain HTTP from inside.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
X_FRAME_OPTIONS = "DENY"

# --- Logs and metrics ------------------------------------------------------------

LOG_LEVEL = env.choice(
    "LOG_LEVEL", "INFO", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
)
LOG_FORMAT = env.choice(
    "LOG_FORMAT", "console" if DEBUG else "json", ["console", "json"]
)
LOGGING_CONFIG = "project.logs.configure"
LOGGING = {"level": LOG_LEVEL, "format": LOG_FORMAT}
# With this folder set, the counters of every process on this machine are summed up
# by /metrics; read by prometheus_client itself from the same variable.
PROMETHEUS_MULTIPROC_DIR = env.text("PROMETHEUS_MULTIPROC_DIR")

EMBEDDED_SERVICES_FORCED = env.flag("DROVER_FORCE_EMBEDDED", default=False)

# What could not be read; refused by `project.checks` (drover.E010).
ENVIRONMENT_PROBLEMS = env.problems
