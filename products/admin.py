"""Sources in the admin, with Run now; and the door to the other pages of the app.

Before it: `models`. After it: `tasks.import_products.run_now`, `schedule`.
"""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import JSONField, OuterRef, Prefetch, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST
from kombu.exceptions import OperationalError as BrokerDown

from products import badges
from products.models import ImportRun, Source
from products.product_admin import ProductAdmin
from products.readers import READERS
from products.records import mapping_for
from products.run_admin import ImportRunAdmin, RowIssueAdmin
from products.schedule import ensure_schedule, remove_schedule
from products.tasks import import_products
from project.badges import moment
from project.jobs.models import State
from project.strict_json import StrictJSONField

__all__ = ["ImportRunAdmin", "ProductAdmin", "RowIssueAdmin", "SourceAdmin"]

STYLE = {"all": ["products/admin.css"]}


def newest_runs() -> "Prefetch[Any]":
    """The newest run of each source, in one query however many runs there are."""
    newest = ImportRun.objects.filter(source=OuterRef("pk")).order_by("-started_at")
    keys = Source.objects.annotate(key=Subquery(newest.values("pk")[:1])).values("key")
    runs = ImportRun.objects.filter(pk__in=keys).select_related("job_run")
    return Prefetch("runs", runs, to_attr="newest")


def newest_run(source: Source) -> ImportRun | None:
    found: list[ImportRun] = getattr(source, "newest", [])
    return found[0] if found else None


@admin.register(Source)
class SourceAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "kind", "enabled", "last_run", "last_counts")
    list_filter = ("enabled", "kind")
    search_fields = ("name", "=slug")
    actions = ("run_now",)
    prepopulated_fields = {"slug": ("name",)}
    fieldsets = (
        (None, {"fields": ("name", "slug", "kind", "url", "enabled")}),
        (
            "What its rows mean",
            {"fields": ("currency", "mode", "options", "mapping", "mapping_in_effect")},
        ),
        ("Who we are to it", {"fields": ("auth_header", "auth_secret")}),
    )

    formfield_overrides = {
        JSONField: {
            "form_class": StrictJSONField,
            "widget": forms.Textarea(attrs={"rows": 3, "cols": 70}),
        }
    }

    class Media:
        css = STYLE

    def get_queryset(self, request: HttpRequest) -> QuerySet[Source]:
        return super().get_queryset(request).prefetch_related(newest_runs())

    @admin.display(description="last import")
    def last_run(self, source: Source) -> SafeString | str:
        run = newest_run(source)
        if run is None:
            return "never imported"
        url = reverse("admin:products_importrun_change", args=[run.pk])
        badge, age = badges.run_badge(run), moment(run.started_at)
        return format_html('<a href="{}">{}</a> {}', url, badge, age)

    @admin.display(description="rows")
    def last_counts(self, source: Source) -> SafeString | str:
        run = newest_run(source)
        return badges.counts(run) if run and run.finished_at else "-"

    def get_readonly_fields(
        self, request: HttpRequest, obj: Source | None = None
    ) -> tuple[str, ...]:
        # The schedule and scripts know a source by its slug.
        return ("slug", "mapping_in_effect") if obj else ("mapping_in_effect",)

    @admin.display(description="mapping in effect")
    def mapping_in_effect(self, source: Source) -> SafeString | str:
        """The kind's defaults with the source's own on top."""
        if source.kind not in READERS:
            return "Choose a kind and save."
        pairs = mapping_for(READERS[source.kind].mapping, source.mapping).items()
        lines = ((field, ".".join(path)) for field, path in pairs)
        return format_html_join("", "<div><code>{} ← {}</code></div>", lines)

    def get_prepopulated_fields(
        self, request: HttpRequest, obj: Source | None = None
    ) -> dict[str, Any]:
        return {} if obj else {"slug": ("name",)}

    def save_model(
        self, request: HttpRequest, obj: Source, form: Any, change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        if not change:
            ensure_schedule(obj)
            self.message_user(request, "It is imported every hour, from now on.")

    def delete_model(self, request: HttpRequest, obj: Source) -> None:
        remove_schedule(obj)
        super().delete_model(request, obj)

    def has_delete_permission(
        self, request: HttpRequest, obj: Source | None = None
    ) -> bool:
        # Its products would lose their origin; disable it instead.
        allowed = super().has_delete_permission(request, obj)
        return allowed and not (obj and obj.products.exists())

    def get_actions(self, request: HttpRequest) -> Any:
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions

    # --- Run now

    def has_run_source_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("products.run_source")

    @admin.action(description="Run now", permissions=["run_source"])
    def run_now(self, request: HttpRequest, sources: QuerySet[Source]) -> None:
        for source in sources:
            self._queue(request, source)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(require_POST(self.run_view))
        mine = path("<int:pk>/run/", view, name="products_source_run")
        return [mine, *super().get_urls()]

    def run_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        source = get_object_or_404(Source, pk=pk)
        if not self.has_run_source_permission(request):
            raise PermissionDenied
        self._queue(request, source)
        return HttpResponseRedirect(reverse("admin:products_source_change", args=[pk]))

    def _queue(self, request: HttpRequest, source: Source) -> None:
        runs = reverse("admin:products_importrun_changelist")
        link = format_html(
            '<a href="{}?source__id__exact={}">Import runs</a>', runs, source.pk
        )
        if not source.enabled:
            text = format_html("{} is disabled: nothing was queued.", source)
            self.message_user(request, text, messages.WARNING)
            return
        try:
            run = import_products.run_now(source_id=source.pk)
        except BrokerDown as down:
            text = format_html("{}: REDIS_URL does not answer ({}).", source, down)
            self.message_user(request, text, messages.ERROR)
            return
        state = "is running already" if run.state == State.RUNNING else "is queued"
        self.log_change(request, source, "Run now")
        self.message_user(request, format_html("{} {}. {}", source, state, link))

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        may_run = self.has_run_source_permission(request)
        context = {**(extra_context or {}), "may_run": may_run}
        return super().change_view(request, object_id, form_url, context)
