"""Dead letters in the admin: find, understand, replay, edit, discard.

Before it: `burial` wrote the letters. After it: `dead_letters`. Imported by `admin`.
"""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from project.badges import moment
from streaming import badges, dead_letters, intake, payloads
from streaming.dead_letters import NotNew, Result
from streaming.letter_forms import PayloadForm, ReasonForm
from streaming.message_admin import ReadOnlyAdmin, describe, kept
from streaming.models import DeadLetter

SAMPLE = 5
LIST = "admin:streaming_deadletter_changelist"


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    list_display = (
        "place",
        "state_badge",
        "why",
        "shown_key",
        "attempts",
        "first_failed",
    )
    list_filter = ("state", "reason", "subscription")
    list_select_related = ("subscription",)
    list_per_page = 50
    search_fields = ("=offset", "=fingerprint")
    search_help_text = "A whole key, an offset or a fingerprint."
    actions = ("replay_selected", "discard_selected")
    change_form_template = "admin/streaming/letter_form.html"
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("state_badge", "attempts", "replays"),
                    ("place", "shown_key", "record_time"),
                    ("first_failed", "last_failed", "error_class"),
                )
            },
        ),
    )

    @admin.display(description="message", ordering="id")
    def place(self, letter: DeadLetter) -> SafeString:
        return format_html('<span class="stream-place">{}</span>', str(letter))

    @admin.display(description="state", ordering="state")
    def state_badge(self, letter: DeadLetter) -> SafeString:
        return badges.letter(letter)

    @admin.display(description="reason", ordering="reason")
    def why(self, letter: DeadLetter) -> SafeString:
        short = letter.detail.splitlines()[0][:120] if letter.detail else ""
        return format_html(
            '<div class="stream-why"><b>{}</b><br>{}</div>', letter.reason, short
        )

    @admin.display(description="key", ordering="key_hash")
    def shown_key(self, letter: DeadLetter) -> SafeString:
        key = None if letter.key is None else bytes(letter.key)
        return format_html('<span class="stream-key">{}</span>', payloads.key(key))

    @admin.display(description="first failed", ordering="first_failed_at")
    def first_failed(self, letter: DeadLetter) -> SafeString | str:
        return moment(letter.first_failed_at)

    @admin.display(description="last failed", ordering="last_failed_at")
    def last_failed(self, letter: DeadLetter) -> SafeString | str:
        return moment(letter.last_failed_at)

    @admin.display(description="record time (UTC)")
    def record_time(self, letter: DeadLetter) -> str:
        message = kept(letter.message_id)
        return badges.record_time(message.ts_ms) if message else "-"

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeadLetter]:
        return dead_letters.with_followers(super().get_queryset(request))

    # --- finding ----------------------------------------------------------------------

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[DeadLetter], search_term: str
    ) -> tuple[QuerySet[DeadLetter], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        found = Q(key_hash=intake.key_hash(term.encode())) | Q(fingerprint=term)
        if term.isascii() and term.isdecimal() and len(term) < 19:
            found |= Q(offset=int(term))
        return queryset.filter(found), False

    # --- permissions ------------------------------------------------------------------

    def has_replay_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("streaming.replay_deadletter")

    def has_edit_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("streaming.edit_deadletter")

    def has_discard_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("streaming.discard_deadletter")

    # --- pages ------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        own = [
            path(f"<int:pk>/{verb}/", view(page), name=f"streaming_deadletter_{verb}")
            for verb, page in (
                ("replay", self.replay_view),
                ("edit", self.edit_view),
                ("discard", self.discard_view),
            )
        ]
        return own + super().get_urls()

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        letter = self.get_object(request, object_id)
        context = describe(kept(letter.message_id)) if letter else {}
        context |= {
            "siblings": _siblings(letter) if letter else [],
            "may_replay": self.has_replay_permission(request),
            "may_edit": self.has_edit_permission(request),
            "may_discard": self.has_discard_permission(request),
        }
        return super().change_view(
            request, object_id, form_url, context | (extra_context or {})
        )

    def replay_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        letters = DeadLetter.objects.filter(pk=pk)
        return self._replay(request, letters, back=_page_of(pk)) or _to(_page_of(pk))

    def discard_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        letters = DeadLetter.objects.filter(pk=pk)
        return self._discard(request, letters, back=_page_of(pk)) or _to(_page_of(pk))

    def edit_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        _require(self.has_edit_permission(request))
        letter = get_object_or_404(DeadLetter.objects.select_related(), pk=pk)
        message = kept(letter.message_id)
        value = b"" if message is None else bytes(message.value or b"")
        form = PayloadForm(
            request.POST or None,
            initial={"payload": value.decode("utf-8", "backslashreplace")},
        )
        if request.method == "POST" and form.is_valid():
            value = form.cleaned_data["payload"].encode()
            try:
                dead_letters.edit(pk, value, request.user.get_username())
            except NotNew as error:
                self.message_user(request, str(error), messages.WARNING)
            else:
                self.log_change(request, letter, "Edited and replayed.")
                self.message_user(request, f"{letter}: the new revision is on its way.")
            return _to(_page_of(pk))
        effect = "The edited payload goes the same way again, in the order of its key."
        title = f"Edit and replay {letter}"
        page = {"title": title, "verb": "Send it again", "effect": effect}
        return self._page(request, page | {"form": form, "back": _page_of(pk)})

    # --- actions ----------------------------------------------------------------------

    @admin.action(description="Replay selected dead letters", permissions=["replay"])
    def replay_selected(
        self, request: HttpRequest, queryset: QuerySet[DeadLetter]
    ) -> HttpResponse | None:
        return self._replay(request, queryset, action="replay_selected")

    @admin.action(description="Discard selected dead letters", permissions=["discard"])
    def discard_selected(
        self, request: HttpRequest, queryset: QuerySet[DeadLetter]
    ) -> HttpResponse | None:
        return self._discard(request, queryset, action="discard_selected")

    def _replay(
        self, request: HttpRequest, letters: QuerySet[DeadLetter], **page: str
    ) -> HttpResponse | None:
        _require(self.has_replay_permission(request))
        if request.method == "POST" and "confirmed" in request.POST:
            ids, actor = list(letters.values_list("pk", flat=True)), request.user
            result = dead_letters.replay(ids, actor.get_username())
            self._report(request, result, "Replayed.", "sent again")
            return None
        context = {"title": "Replay", "verb": "Replay"}
        context["effect"] = (
            f"Sent down the same path again, byte for byte: {_count(letters)}. What has"
            " not been repaired is dead again."
        )
        return self._page(request, context | page, letters)

    def _discard(
        self, request: HttpRequest, letters: QuerySet[DeadLetter], **page: str
    ) -> HttpResponse | None:
        _require(self.has_discard_permission(request))
        confirmed = request.method == "POST" and "confirmed" in request.POST
        form = ReasonForm(request.POST if confirmed else None)
        if confirmed and form.is_valid():
            ids, actor = list(letters.values_list("pk", flat=True)), request.user
            reason = form.cleaned_data["reason"]
            result = dead_letters.discard(ids, reason, actor.get_username())
            self._report(request, result, f"Discarded: {reason}", "discarded")
            return None
        context = {"title": "Discard", "verb": "Discard", "form": form}
        context["effect"] = (
            f"Closed without having had its effect: {_count(letters)}. The bytes are kept."
        )
        return self._page(request, context | page, letters)

    def _report(
        self, request: HttpRequest, result: Result, entry: str, done: str
    ) -> None:
        for letter in result.changed:
            self.log_change(request, letter, entry)
        text = f"{len(result.changed)} {done}, {len(result.skipped)} skipped."
        if result.skipped:
            text = " ".join([text, *result.skipped[:SAMPLE]])
        level = messages.WARNING if result.skipped else messages.SUCCESS
        self.message_user(request, text, level)

    def _page(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        letters: QuerySet[DeadLetter] | None = None,
    ) -> HttpResponse:
        if letters is not None:
            sample = list(letters.select_related("subscription")[:SAMPLE])
            for letter in sample:
                letter.shown_key = self.shown_key(letter)  # type: ignore[attr-defined]
            context["letters"] = sample
            context["more"] = max(0, letters.count() - SAMPLE)
        context.setdefault("back", reverse(LIST))
        context["selected"] = request.POST.getlist("_selected_action")
        context |= self.admin_site.each_context(request)
        return TemplateResponse(request, "admin/streaming/confirm.html", context)


def _siblings(letter: DeadLetter) -> list[tuple[DeadLetter, SafeString]]:
    return [(row, badges.letter(row)) for row in dead_letters.siblings(letter)]


def _require(allowed: bool) -> None:
    if not allowed:
        raise PermissionDenied


def _page_of(pk: int) -> str:
    return reverse("admin:streaming_deadletter_change", args=[pk])


def _to(address: str) -> HttpResponse:
    return HttpResponseRedirect(address)


def _count(letters: QuerySet[DeadLetter]) -> str:
    count = letters.count()
    return f"{count:,} message" if count == 1 else f"{count:,} messages"
