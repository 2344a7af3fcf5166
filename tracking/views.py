"""HTTP: the two pages, and the doors for phone apps and scripts.

Before it: a browser or a phone. After it: `tracking.ingest`. The status codes keep each
app healthy: a bad fix is 200 and counted, busy is 503, never 429.
"""

import logging
from typing import Any

from django.conf import settings
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST
from django.views.generic import TemplateView

from tracking import auth, doors, ingest
from tracking.fixes import InvalidFix
from tracking.protocols import native, osmand

logger = logging.getLogger(__name__)

MOST_BODY = 1024 * 1024
RETRY_AFTER_S = "5"


class MapPage(LoginRequiredMixin, TemplateView):
    """The live map."""

    template_name = "tracking/map.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {
            "map_style_url": settings.MAP_STYLE_URL,
            "map_attribution": settings.MAP_ATTRIBUTION,
            "ws_path": "/ws/map/",
        }


class PhonePage(TemplateView):
    """The phone tracker; public, since the token is the secret."""

    template_name = "tracking/phone.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {"ws_path": "/ws/device/"}


@csrf_exempt
@require_http_methods(["GET", "POST"])
async def osmand_door(request: HttpRequest, token: str) -> HttpResponse:
    """OsmAnd and Traccar Client: one fix per request, in the query or as a form."""
    try:
        device = await auth.identify(token)
        if device is None:
            return HttpResponse("unknown token", status=404, content_type="text/plain")
        if request.content_type == "application/json":
            return HttpResponse("send a query or a form", status=415)
        return await _osmand(device, request.GET or request.POST)
    except ingest.Unavailable as error:
        return _busy(error)


async def _osmand(device: auth.Identity, parameters: QueryDict) -> HttpResponse:
    try:
        fix = osmand.fix({name: str(parameters[name]) for name in parameters})
    except InvalidFix as error:
        # Refused with 4xx, a phone would send it again for ever, before all others.
        doors.count_invalid("osmand", error)
        return HttpResponse(str(error), content_type="text/plain")
    if fix is None:
        await ingest.touch(device)
        return HttpResponse("heartbeat", content_type="text/plain")
    [outcome] = await ingest.accept(device, [fix], door="osmand")
    return HttpResponse(outcome.text, content_type="text/plain")


@csrf_exempt
@require_POST
async def fixes_door(request: HttpRequest) -> HttpResponse:
    """`{"fixes": […]}` with a Bearer token → `{"results": […]}`, one for each."""
    try:
        token = auth.bearer({b"authorization": _authorization(request)})
        device = await auth.identify(token) if token else None
        if device is None:
            return _refusal("unknown_token", "Send Authorization: Bearer <token>.", 401)
        if len(request.body) > MOST_BODY:
            return _refusal("too_big", "At most 1 MiB.", 413)
        raw = native.decode(request.body).get("fixes")
        return JsonResponse(
            {"results": await doors.accept_batch(device, raw, door="http")}
        )
    except InvalidFix as error:
        doors.count_invalid("http", error)
        return _refusal(error.reason, error.detail, 400)
    except ingest.Unavailable as error:
        return _busy(error)


def _authorization(request: HttpRequest) -> bytes:
    return request.headers.get("Authorization", "").encode("latin-1", "replace")


def _refusal(reason: str, detail: str, status: int) -> JsonResponse:
    return JsonResponse({"reason": reason, "detail": detail}, status=status)


def _busy(error: ingest.Unavailable) -> HttpResponse:
    text = f"{error}: keep it and send it again"
    headers = {"Retry-After": RETRY_AFTER_S}
    return HttpResponse(text, status=503, headers=headers, content_type="text/plain")
