"""Imports and events that meet on the same rows, on purpose."""

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from products.models import Product, Source
from products.upsert import WAITS_S, Outcomes, apply_change, upsert
from tests.products.factories import NOW, make_record, make_source

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]

TIMEOUT_S = 20.0


def together(*works: Callable[[], Any]) -> list[Any]:
    """Each work in a thread with a connection of its own, started at one moment."""
    barrier = threading.Barrier(len(works), timeout=TIMEOUT_S)
    results: list[Any] = [None] * len(works)

    def run(number: int) -> None:
        try:
            barrier.wait()
            results[number] = works[number]()
        except Exception as error:  # noqa: BLE001 - handed to the test's own thread
            results[number] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def put(source: Source, keys: Any, minute: int, **over: Any) -> Outcomes:
    records = [make_record(str(key), **over) for key in keys]
    at = NOW + timedelta(minutes=minute)
    return upsert(source, records, fenced=transaction.atomic, fetched_at=at)


def test_two_imports_in_opposite_order_never_lose_a_row() -> None:
    source = make_source()
    keys = range(400)
    put(source, keys, 0)
    for minute in range(1, 6):
        one, other = together(
            partial(put, source, keys, minute, stock=minute),
            partial(put, source, reversed(keys), minute, stock=-minute),
        )
        assert len(one.by_id) == len(other.by_id) == 400
        assert not one.invalid
        assert not other.invalid
        stocks = set(Product.objects.values_list("stock", flat=True))
        assert stocks <= {minute, -minute}


def test_two_imports_that_insert_the_same_rows_make_each_of_them_once() -> None:
    for number in range(4):
        source = make_source(slug=f"s{number}")
        one, other = together(
            partial(put, source, range(300), 1),
            partial(put, source, range(150, 450), 2, stock=1),
        )
        assert source.products.count() == 450
        created = [
            sum(outcome == "created" for outcome in result.by_id.values())
            for result in (one, other)
        ]
        assert sum(created) == 450


def test_an_event_that_makes_a_product_during_an_import_is_not_doubled() -> None:
    source = make_source()
    when = NOW + timedelta(minutes=5)

    def event() -> str:
        return apply_change(source.slug, "150", {"stock": 7}, when)

    result, outcome = together(lambda: put(source, range(300), 1), event)
    assert source.products.count() == 300
    assert outcome in {"created", "updated"}
    # The event is newer than the page, whoever came first.
    assert Product.objects.get(external_id="150").stock == 7
    assert set(result.by_id) == {str(key) for key in range(300)}


def test_two_events_for_a_new_product_end_with_the_newer_one() -> None:
    source = make_source()
    for number in range(5):
        key = str(number)
        older, newer = (NOW + timedelta(seconds=s) for s in (1, 2))
        together(
            partial(apply_change, source.slug, key, {"stock": 1}, older),
            partial(apply_change, source.slug, key, {"stock": 2}, newer),
        )
        assert Product.objects.get(external_id=key).stock == 2


def test_a_deadlock_repeats_the_batch_and_blames_no_row() -> None:
    source = make_source()
    put(source, ["a", "b"], 0)
    first_lock = threading.Event()
    # Holds b and then wants a, while the batch holds a and wants b.
    import_holds_a = threading.Event()

    def opponent() -> None:
        with transaction.atomic():
            Product.objects.select_for_update().get(external_id="b")
            first_lock.set()
            assert import_holds_a.wait(TIMEOUT_S)
            Product.objects.filter(external_id="a").update(brand="x")

    def fenced() -> Any:
        return _LocksAFirst(first_lock, import_holds_a)

    def batch() -> Outcomes:
        records = [make_record("a", stock=1), make_record("b", stock=1)]
        at = NOW + timedelta(minutes=1)
        return upsert(source, records, fenced=fenced, fetched_at=at)

    _, result = together(lambda: _deadlock_is_fine(opponent), batch)
    assert not result.invalid
    assert set(result.by_id) == {"a", "b"}
    assert set(Product.objects.values_list("stock", flat=True)) == {1}


class _LocksAFirst:
    """A fence that, the first time, takes row a and lets the opponent go on."""

    def __init__(self, ready: threading.Event, holds: threading.Event) -> None:
        self.ready, self.holds = ready, holds
        self.atomic = transaction.atomic()

    def __enter__(self) -> None:
        self.atomic.__enter__()
        if not self.holds.is_set():
            assert self.ready.wait(TIMEOUT_S)
            Product.objects.select_for_update().get(external_id="a")
            self.holds.set()

    def __exit__(self, *error: Any) -> Any:
        return self.atomic.__exit__(*error)


def test_a_restart_of_the_database_repeats_the_batch_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = [seconds / 100 for seconds in WAITS_S]
    monkeypatch.setattr("products.upsert.WAITS_S", waits)
    source = make_source()
    calls = 0

    def fenced() -> Any:
        nonlocal calls
        calls += 1
        if calls < len(WAITS_S):
            raise OperationalError("the database system is starting up")
        return transaction.atomic()

    records = [make_record("a"), make_record("b")]
    result = upsert(source, records, fenced=fenced, fetched_at=NOW)
    assert result.by_id == {"a": "created", "b": "created"}
    assert 5 < sum(WAITS_S) < 10


def _deadlock_is_fine(work: Callable[[], None]) -> None:
    """PostgreSQL chooses the victim; either side may be it."""
    try:
        work()
    except OperationalError as error:
        if "deadlock" not in str(error):
            raise
