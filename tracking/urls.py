"""HTTP addresses of tracking: the pages and the phone doors."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
