"""Websocket addresses of tracking."""

from django.urls import path

from tracking.consumers import DeviceConsumer, MapConsumer

websocket_urlpatterns = [
    path("ws/map/", MapConsumer.as_asgi()),
    path("ws/device/", DeviceConsumer.as_asgi()),
]
