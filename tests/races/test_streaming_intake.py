"""Two owners of one partition: whoever comes second inserts nothing."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from streaming.intake import Recorded
from streaming.models import Cursor, InboxMessage
from tests.streaming.builders import arrive, handles, make_place, make_record, note

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]
TABLE = handles()


def test_two_consumers_of_one_partitions_rows_keep_each_row_once():
    place = make_place()
    records = [make_record(n, note(str(n))) for n in range(300)]
    together = threading.Barrier(4, timeout=10)

    def consume(start: int) -> Recorded:
        # Each re-reads from another offset, as after a rebalance without a commit.
        together.wait()
        total = Recorded()
        for first in range(start, 300, 50):
            some = arrive(place, records[first : first + 50], TABLE)
            total.ready += some.ready
        connection.close()
        return total

    # A later offset first would be a gap, so all of them begin at the cursor.
    with ThreadPoolExecutor(4) as pool:
        totals = list(pool.map(consume, [0, 0, 0, 0]))
    assert sum(total.ready for total in totals) == 300
    offsets = InboxMessage.objects.order_by("offset").values_list("offset", flat=True)
    assert list(offsets) == list(range(300))
    assert Cursor.objects.get().next_offset == 300


def test_a_zombie_waits_for_the_new_owner_and_then_finds_the_cursor_moved():
    place = make_place()
    records = [make_record(n, note("x")) for n in range(10)]

    def zombie() -> Recorded:
        try:
            return arrive(place, records, TABLE)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            arrive(place, records, TABLE)
            late: Future[Recorded] = pool.submit(zombie)
            assert not late.done()
        result = late.result(timeout=10)
    assert (result.ready, result.dropped, result.next_offsets) == (0, 10, {})
    assert InboxMessage.objects.count() == 10
