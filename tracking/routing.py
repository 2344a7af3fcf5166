"""Websocket addresses of tracking."""

from typing import Any

from django.urls import path, re_path

from tracking.consumers import DeviceConsumer, MapConsumer, NoConsumer

# django-stubs knows only HTTP views behind `path`; Channels routes ASGI applications.
_watch: Any = MapConsumer.as_asgi()
_send: Any = DeviceConsumer.as_asgi()
_refuse: Any = NoConsumer.as_asgi()

websocket_urlpatterns = [
    path("ws/map/", _watch),
    path("ws/device/", _send),
    re_path("", _refuse),
]
