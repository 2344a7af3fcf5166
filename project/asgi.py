"""The web process: HTTP by Django, websockets by tracking's consumers."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
# First: it loads the apps that the routing below imports.
http_application = get_asgi_application()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from project.checks import refuse_bad_settings  # noqa: E402
from tracking.routing import websocket_urlpatterns  # noqa: E402

refuse_bad_settings()

application = ProtocolTypeRouter(
    {"http": http_application, "websocket": URLRouter(websocket_urlpatterns)}
)
