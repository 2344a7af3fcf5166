"""Configuration, and what at least two apps share. Imports no app."""

from project.celery import app as celery_app

__all__ = ["celery_app"]
