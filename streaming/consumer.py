"""The consumer, one step at a time: poll → decode → record → commit → nudge.

Before it: `kafka` hands out records. After it: `intake` has kept them, `publisher` tells
the workers. Polling never stops: with the database away the batch is kept, partitions are
paused, and the group still sees a living member.
"""

import logging
import time
from collections.abc import Iterable

from django.db import Error, ProgrammingError, close_old_connections, connection
from prometheus_client import Counter, Histogram

from streaming import cursors, intake, kafka
from streaming.burial import Failure, database_address
from streaming.cursors import Place
from streaming.handlers import HANDLERS
from streaming.intake import Arrival
from streaming.kafka import BrokerUnavailable, Feed, Record, Spot
from streaming.lanes import Table
from streaming.models import Subscription
from streaming.publisher import Publisher
from streaming.schemas import InvalidMessage, decode

logger = logging.getLogger(__name__)

MESSAGES = Counter(
    "drover_streaming_messages_total", "Records polled.", ["topic", "outcome"]
)
LOOP = Histogram("drover_streaming_loop_seconds", "One step of the poll loop.")

BATCH = 2000
POLL_S = 0.05
LOOK_S = 5.0
HIGH_WATER, LOW_WATER = 100_000, 50_000
LONGEST_BACKOFF_S = 5.0


class StreamConsumer:
    """Reads the enabled subscriptions of one group; `topics` narrows them."""

    def __init__(
        self,
        group: str,
        *,
        topics: Iterable[str] = (),
        table: Table = HANDLERS,
        publisher: Publisher | None = None,
    ) -> None:
        self.group, self.only, self.table = group, set(topics), table
        self.publisher = publisher or Publisher()
        self.feed = Feed(group, self)
        self.subscriptions: dict[str, Subscription] | None = None
        self.places: dict[Spot, Place] = {}
        self.unplaced: set[Spot] = set()
        self.batch: list[Record] = []
        self.is_full = False
        self.idle_since = time.monotonic()
        self._failures = 0
        self._retry_at = self._look_at = self._place_at = 0.0
        self._verify = False

    def start(self) -> None:
        self.publisher.start()

    def run_once(self) -> int:
        """One step; returns how many records it made safe. Raises FeedDead."""
        with LOOP.time():
            polled = self.feed.poll(BATCH, POLL_S)
            self.batch += [r for r in polled if (r.topic, r.partition) in self.places]
            if self._verify:
                self._pause_or_resume()
            if time.monotonic() < self._retry_at:
                return 0
            try:
                close_old_connections()
                _limit_waits()
                self._look_around()
                self._place()
                kept = self._record()
            except Error as error:
                self._database_away(error)
                return 0
            self._database_back()
            return kept

    def has_read_all(self, quiet_s: float) -> bool:
        """Whether nothing came for `quiet_s`, though nothing was in the way."""
        quiet = time.monotonic() - self.idle_since >= quiet_s
        hindered = self._failures or self._verify or self.is_full
        is_subscribed = bool(self.places) or self.subscriptions == {}
        return quiet and is_subscribed and not (self.unplaced or self.batch or hindered)

    def close(self) -> None:
        """Leave the group. What was polled and not kept is read again by the next owner."""
        self.publisher.stop()
        self.feed.close()
        connection.close()

    # --- the story ------------------------------------------------------------------

    def _record(self) -> int:
        if not self.batch or self._verify:
            return 0
        arrivals = [self._arrival(record) for record in self.batch]
        recorded = intake.record(arrivals)
        self.batch = []
        self.idle_since = time.monotonic()
        self.feed.commit(
            {s: n for s, n in recorded.next_offsets.items() if s in self.places}
        )
        self.publisher.nudge(recorded.lanes)
        _count(arrivals)
        return recorded.ready + recorded.dead

    def _arrival(self, record: Record) -> Arrival:
        place = self.places[record.topic, record.partition]
        try:
            decode(record.value, self.table)
        except InvalidMessage as error:
            failure = Failure.of(error, error.reason, error.path)
            return Arrival(place, record, failure)
        return Arrival(place, record, None)

    def _look_around(self) -> None:
        """Every 5 s: subscriptions, the backlog, the ends of the logs."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_S
        self._subscribe()
        backlog = intake.backlog(HIGH_WATER)
        if self.is_full != (backlog >= (LOW_WATER if self.is_full else HIGH_WATER)):
            self.is_full = not self.is_full
            self._pause_or_resume()
        ends = {
            place.cursor_id: end
            for spot, place in self.places.items()
            if (end := self.feed.log_end(spot)) is not None
        }
        cursors.sample(ends)

    def _subscribe(self) -> None:
        rows = Subscription.objects.filter(group=self.group, enabled=True)
        wanted = {
            row.topic: row for row in rows if not self.only or row.topic in self.only
        }
        if self.subscriptions is None or wanted.keys() != self.subscriptions.keys():
            for row in wanted.values():
                # Whoever made the row by other means than `ensure` made no lanes, and
                # what is in a lane without a row would wait for ever.
                row.ensure_lanes()
            self.subscriptions = wanted
            self.feed.subscribe(wanted)
            logger.info(
                "Reading %s as group %s.",
                ", ".join(wanted) or "nothing yet: no subscription is enabled",
                self.group,
                extra={"action": "subscribed"},
            )

    # --- partitions come and go -----------------------------------------------------

    def assigned(self, spots: list[Spot]) -> None:
        self.unplaced.update(spots)
        self._place_at = 0.0

    def revoked(self, spots: list[Spot]) -> None:
        """Forget everything about them: the next owner starts at the cursor."""
        for spot in spots:
            self.places.pop(spot, None)
        self.unplaced.difference_update(spots)
        self.batch = [r for r in self.batch if (r.topic, r.partition) in self.places]

    def out_of_range(self, spot: Spot) -> None:
        """Retention was faster than we: go on with what is left."""
        logger.error(
            "Records of %s/%s were deleted before they were read; going on at the"
            " earliest that is left.",
            *spot,
            extra={"action": "records_missing"},
        )
        if spot in self.places:
            self.feed.start({spot: None})
            self._pause_or_resume()

    def suspect_topics(self) -> None:
        """After broker trouble a topic may be another one under its old name.

        Until that is known nothing is recorded: a record of the new topic would be
        taken for one of the old, and again for itself.
        """
        self._verify = True

    def _place(self) -> None:
        """Give every partition its cursor and start reading it there."""
        if time.monotonic() < self._place_at or not (self.unplaced or self._verify):
            return
        self._place_at = time.monotonic() + 1.0
        spots = self.unplaced | (set(self.places) if self._verify else set())
        try:
            found = self._places(spots)
        except BrokerUnavailable as error:
            self.feed.complain(str(error))
            return
        self._verify = False
        fresh = {
            s: p for s, p in found.items() if s in self.unplaced or self._moved(s, p)
        }
        self.batch = [r for r in self.batch if (r.topic, r.partition) not in fresh]
        self.places |= fresh
        self.unplaced -= fresh.keys()
        self.feed.start({spot: place.start for spot, place in fresh.items()})
        self._pause_or_resume()
        if fresh:
            self.idle_since = time.monotonic()
            logger.info(
                "Reading %d more partitions, %d in all.",
                len(fresh),
                len(self.places),
                extra={"action": "partitions_placed"},
            )

    def _moved(self, spot: Spot, place: Place) -> bool:
        return self.places[spot].incarnation_id != place.incarnation_id

    def _places(self, spots: set[Spot]) -> dict[Spot, Place]:
        """Partitions of topics that Kafka does not name now are left out."""
        broker = cursors.Broker(self.feed.committed, self.feed.latest)
        subscriptions = self.subscriptions or {}
        known = kafka.topics(sorted({topic for topic, _ in spots})) if spots else {}
        return {
            (topic, partition): place
            for topic, described in known.items()
            if topic in subscriptions
            for partition, place in cursors.place(
                subscriptions[topic],
                described,
                [p for t, p in spots if t == topic],
                broker,
            ).items()
        }

    def _pause_or_resume(self) -> None:
        """Above the high-water mark, or with a batch in hand, nothing more is fetched."""
        if self.is_full or self._failures or self._verify:
            self.feed.pause(self.places)
        else:
            self.feed.resume(self.places)

    # --- the database comes and goes ------------------------------------------------

    def _database_away(self, error: Error) -> None:
        connection.close()
        self._failures += 1
        wait_s = min(LONGEST_BACKOFF_S, 0.5 * 2 ** min(self._failures - 1, 10))
        self._retry_at = time.monotonic() + wait_s
        # Only a statement that was answered shows that it is back.
        self._look_at = 0.0
        if self._failures == 1:
            self._pause_or_resume()
            logger.warning(
                "%s at DATABASE_URL=%s: %s. %d records are held, polling goes on.",
                "The tables are missing (manage.py migrate makes them)"
                if isinstance(error, ProgrammingError)
                else "No answer from the database",
                database_address(),
                str(error).partition("\n")[0],
                len(self.batch),
                extra={"action": "database_unavailable"},
            )

    def _database_back(self) -> None:
        if self._failures:
            self._failures = 0
            self._pause_or_resume()
            logger.info("The database is back.", extra={"action": "database_back"})


def _limit_waits() -> None:
    """No statement of the poll loop, whoever holds a lock, lasts as long as a poll may."""
    if connection.connection is None:
        with connection.cursor() as sql:
            sql.execute(
                "SELECT set_config('lock_timeout', '2s', false),"
                " set_config('statement_timeout', '5s', false)"
            )


def _count(arrivals: Iterable[Arrival]) -> None:
    for arrival in arrivals:
        outcome = "dead" if arrival.failure else "ready"
        MESSAGES.labels(arrival.record.topic, outcome).inc()
