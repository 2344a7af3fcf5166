"""Websocket addresses of tracking."""

from django.urls import URLPattern

websocket_urlpatterns: list[URLPattern] = []
