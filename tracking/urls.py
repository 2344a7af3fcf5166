"""HTTP addresses of tracking: the pages and the phone doors."""

from django.urls import path

from tracking import views

urlpatterns = [
    path("", views.MapPage.as_view(), name="map"),
    path("phone/", views.PhonePage.as_view(), name="phone"),
    path("api/fixes/", views.fixes_door, name="fixes"),
    # With and without the slash: phones do not follow redirects of a POST.
    path("osmand/<slug:token>/", views.osmand_door, name="osmand"),
    path("osmand/<slug:token>", views.osmand_door),
]
