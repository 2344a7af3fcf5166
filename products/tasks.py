"""The scheduled job of a source. Hourly by default; only one server runs a tick.

Before it: beat, or Run now in the admin. After it: `importer`.
"""

import logging

from products.importer import import_source
from products.models import Source
from project.jobs.lease import Lease
from project.jobs.scheduling import scheduled_job

logger = logging.getLogger(__name__)


@scheduled_job("import-products", ttl=30)
def import_products(lease: Lease, source_id: int) -> None:
    """Raises Source.DoesNotExist, ImportFailed or StopRun."""
    source = Source.objects.get(pk=source_id)
    if not source.enabled:
        logger.info(
            "source is disabled",
            extra={"action": "import_skipped", "source": source.slug},
        )
        return
    import_source(source, lease)
