"""Products in the admin: found, edited, and locked against feeds and events.

Before it: an editor's form. After it: `upsert.edit`; nothing here writes by itself.
"""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from products import badges, upsert
from products.models import Product
from products.records import FIELDS
from project.badges import moment

# Everything but the source's own time, which is no opinion.
EDITABLE = tuple(name for name in FIELDS if name != "modified_at")


class LockedFilter(admin.SimpleListFilter):
    title = "locked fields"
    parameter_name = "locked"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "some are locked"), ("no", "none")]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[Product]
    ) -> QuerySet[Product]:
        if self.value() == "yes":
            return queryset.exclude(locked_fields=[])
        return queryset.filter(locked_fields=[]) if self.value() else queryset


class ProductForm(forms.ModelForm):  # type: ignore[type-arg]
    """The fields of a record, and which of them no import may touch."""

    locked_fields = forms.MultipleChoiceField(
        choices=[(name, name.replace("_", " ")) for name in EDITABLE],
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text="Locked fields keep your value; imports and events leave them alone.",
    )

    class Meta:
        model = Product
        fields = (*EDITABLE, "locked_fields")
        widgets = {
            name: forms.TextInput(attrs={"class": "vTextField"})
            for name in (
                "title",
                "sku",
                "gtin",
                "brand",
                "category",
                "url",
                "image_url",
            )
        }


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    form = ProductForm
    list_display = (
        "title",
        "source",
        "external_id",
        "price_text",
        "stock",
        "availability_badge",
        "updated",
    )
    list_filter = (
        "source",
        "availability",
        LockedFilter,
    )
    list_select_related = ("source",)
    search_fields = ("title", "=external_id", "=sku")
    search_help_text = "Part of a title, or a whole id or SKU."
    show_full_result_count = False
    list_per_page = 50
    ordering = ("-pk",)
    readonly_fields = (
        "source",
        "external_id",
        "modified_at",
        "source_time",
        "updated",
        "created_at",
    )
    actions = None
    fieldsets = (
        (None, {"fields": ("source", "external_id", "title", "description")}),
        (
            "Price and stock",
            {"fields": ("price", "sale_price", "currency", "stock", "availability")},
        ),
        (
            "Facts",
            {"fields": ("brand", "category", "sku", "gtin", "url", "image_url")},
        ),
        ("Who may change it", {"fields": ("locked_fields",)}),
        (
            "Times",
            {"fields": ("modified_at", "source_time", "updated", "created_at")},
        ),
    )

    class Media:
        css = {"all": ["products/admin.css"]}

    @admin.display(description="price", ordering="price")
    def price_text(self, product: Product) -> str:
        return (
            "-" if product.price is None else f"{product.price:,.2f} {product.currency}"
        )

    @admin.display(description="availability", ordering="availability")
    def availability_badge(self, product: Product) -> SafeString | str:
        return badges.badge(product.availability) if product.availability else "-"

    @admin.display(description="updated", ordering="updated_at")
    def updated(self, product: Product) -> SafeString | str:
        return moment(product.updated_at)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # The next feed would bring it back.
        return False

    def save_model(
        self, request: HttpRequest, obj: Product, form: Any, change: bool
    ) -> None:
        if form.changed_data:
            upsert.edit(obj, form.changed_data)
