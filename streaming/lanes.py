"""Key-ordered work over leased lanes: claim → prepare → apply and done in one transaction.

Before it: a nudge named lanes that have ready messages. After it: `handlers` had their
effect, and `inbox` holds the outcome.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from prometheus_client import Counter

from streaming import burial, inbox, leases
from streaming.burial import Failure
from streaming.handlers import HANDLERS, Handler, Message
from streaming.inbox import Claimed, NotClaimedAnymore
from streaming.leases import Held, LaneLost
from streaming.models import Attempt
from streaming.retries import RetryAt, decide
from streaming.schemas import InvalidMessage, decode

logger = logging.getLogger(__name__)

HANDLED = Counter(
    "drover_streaming_handled_total", "Attempts by outcome.", ["handler", "outcome"]
)
CLAIM = 512
GROUP = 50
DRAIN_S = 60.0

Table = Mapping[str, Handler]
Slot = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Work:
    """A claimed message that is ready for its finishing transaction."""

    claimed: Claimed
    handler: Handler
    value: Any


def drain(
    lane_ids: Sequence[int], table: Table = HANDLERS, seconds: float = DRAIN_S
) -> float | None:
    """Run what waits in these lanes; in how many seconds to look again, None if never.

    Leases are released and taken again until nothing is left: a message recorded just
    before the release is found then, as its nudge found the lane leased. 0.0 when time
    ended it, else the shortest back-off of what failed.
    """
    deadline, again_s = time.monotonic() + seconds, float("inf")
    while time.monotonic() < deadline:
        held = leases.lease(lane_ids)
        if not held:
            return None if again_s == float("inf") else again_s
        turn = Turn(table, held, deadline)
        turn.run()
        again_s = min(again_s, turn.again_s)
    return 0.0


@dataclass
class Turn:
    """One lease of some lanes, from taking to releasing them.

    An error that leaves `run` leaves the lanes leased and their rows claimed: they
    expire as suspect, exactly as if this worker had died.
    """

    table: Table
    held: list[Held]
    deadline: float
    renewed_at: float = field(default_factory=time.monotonic)
    pending: list[Work] = field(default_factory=list)
    waiting: set[Slot] = field(default_factory=set)
    unrun: list[Claimed] = field(default_factory=list)
    again_s: float = float("inf")

    def run(self) -> None:
        with leases.renewing(lambda: self.held):
            self._run()
        leases.release(self.held)

    def _run(self) -> None:
        for lane in [lane for lane in self.held if lane.suspect]:
            while leases.has_suspects(lane) and self._claim_and_run([lane], alone=True):
                pass
        calm = [x for x in self.held if not (x.suspect and leases.has_suspects(x))]
        while calm and self._claim_and_run(calm, alone=False):
            calm = [lane for lane in calm if lane in self.held]

    def _claim_and_run(self, lanes: Sequence[Held], *, alone: bool) -> bool:
        """One claim, run to its end; False when there is nothing more to do."""
        if time.monotonic() >= self.deadline:
            return False
        try:
            self._keep()
            per_lane = 1 if alone else max(8, CLAIM // len(lanes))
            claimed = inbox.claim(lanes, per_lane, alone=alone)
            self._run_claimed(claimed)
        except LaneLost:
            self.pending, self.unrun = [], []
            self.held = leases.renew(self.held)
            logger.warning(
                "A lane was taken over by another worker.",
                extra={"action": "lane_lost"},
            )
            return not alone
        return bool(claimed)

    def _run_claimed(self, claimed: Sequence[Claimed]) -> None:
        self.waiting = set()
        for item in claimed:
            if _slot(item) in self.waiting:
                self.unrun.append(item)
            elif work := self._prepare(item):
                self._add(work)
        self._finish_pending()
        unrun, self.unrun = self.unrun, []
        inbox.give_back(unrun)

    def _add(self, work: Work) -> None:
        if not work.handler.is_grouped:
            self._finish_pending()
        self.pending.append(work)
        if not work.handler.is_grouped or len(self.pending) >= GROUP:
            self._finish_pending()

    def _prepare(self, item: Claimed) -> Work | None:
        """Decode, and do the slow part; None when the message failed here."""
        try:
            event = decode(_bytes(item.message.value), self.table)
        except InvalidMessage as error:
            failure = Failure.of(error, error.reason, error.path)
            self._bury(item, "", failure, Attempt.Outcome.INVALID)
            return None
        handler = self.table[event.schema_]
        if item.lost and self._lost_for_good(item, handler):
            return None
        message = _message(item, event)
        self._keep()
        if handler.prepare is None:
            return Work(item, handler, message)
        if not self._is_next(item):
            self.unrun.append(item)
            return None
        try:
            return Work(item, handler, handler.prepare(message))
        except Exception as error:  # noqa: BLE001 - whatever a handler raises
            self._failed(item, handler, error)
            return None

    def _is_next(self, item: Claimed) -> bool:
        """Whether its `prepare` may run: what its key has pending comes before it."""
        slot = _slot(item)
        if any(_slot(w.claimed) == slot and w.handler.apply for w in self.pending):
            self._finish_pending()
        return slot not in self.waiting

    def _lost_for_good(self, item: Claimed, handler: Handler) -> bool:
        """Note the attempt in which a worker died; bury the message after the last."""
        lost = item.message.attempts - 1
        text = f"The worker died while it worked on this message (attempt {lost})."
        failure = Failure("worker_lost", "WorkerLost", text)
        if lost < handler.retry.max_attempts:
            burial.attempt(item.message.pk, lost, Attempt.Outcome.LOST, failure)
            return False
        item.message.attempts = lost
        self._bury(item, handler.name, failure, Attempt.Outcome.LOST)
        return True

    def _finish_pending(self) -> None:
        """All in one transaction; after an error one by one, so that one alone fails."""
        works, self.pending = self.pending, []
        if len(works) > 1 and self._finished_as_group(works):
            return
        for work in works:
            if _slot(work.claimed) in self.waiting:
                self.unrun.append(work.claimed)
            else:
                self._finish_one(work)

    def _finished_as_group(self, works: Sequence[Work]) -> bool:
        try:
            _finish(works)
        except LaneLost:
            raise
        except Exception:
            logger.debug("A group is run one by one.", exc_info=True)
            return False
        return True

    def _finish_one(self, work: Work) -> None:
        try:
            _finish([work])
        except LaneLost:
            raise
        except NotClaimedAnymore:
            logger.warning("A message was moved by someone else.")
        except Exception as error:  # noqa: BLE001 - whatever a handler raises
            self._failed(work.claimed, work.handler, error)

    def _failed(self, item: Claimed, handler: Handler, error: Exception) -> None:
        decision = decide(handler.retry, item.message.attempts, error)
        if isinstance(decision, RetryAt):
            inbox.put_off(item, decision.after_s, Failure.of(error))
            self.again_s = min(self.again_s, decision.after_s)
            HANDLED.labels(handler.name, "retried").inc()
            if item.message.key_hash is not None:
                self.waiting.add(_slot(item))
            return
        failure = Failure.of(error, decision.reason)
        self._bury(item, handler.name, failure, Attempt.Outcome.DEAD)

    def _bury(
        self, item: Claimed, handler: str, failure: Failure, outcome: Attempt.Outcome
    ) -> None:
        inbox.give_up(item, failure, outcome)
        HANDLED.labels(handler, "dead").inc()
        logger.warning(
            "Gave up on %s: %s.",
            item.message,
            failure.reason,
            extra={"action": "message_buried", "reason": failure.reason},
        )

    def _keep(self) -> None:
        """Renew in time. Raises LaneLost: a process that was stopped learns of it before
        the next effect of a `prepare`, which no fence guards.
        """
        if time.monotonic() - self.renewed_at > leases.LEASE_S / 3:
            self.renewed_at = time.monotonic()
            if len(leases.renew(self.held)) < len(self.held):
                raise LaneLost


def _finish(works: Sequence[Work]) -> None:
    with transaction.atomic():
        leases.fence(work.claimed.held for work in works)
        done = []
        for work in works:
            handler = work.handler
            outcome = handler.apply(work.value) if handler.apply else str(work.value)
            done.append((work.claimed, handler.name, outcome))
        inbox.complete(done)
    for _, name, _ in done:
        HANDLED.labels(name, "done").inc()


def _slot(item: Claimed) -> Slot:
    return item.message.lane_id, item.message.key_hash


def _bytes(value: bytes | memoryview | None) -> bytes | None:
    return None if value is None else bytes(value)


def _message(item: Claimed, event: Any) -> Message:
    row = item.message
    return Message(
        uid=row.uid,
        topic=row.incarnation.subscription.topic,
        partition=row.partition,
        offset=row.offset,
        revision=row.revision,
        key=_bytes(row.key),
        value=_bytes(row.value),
        ts_ms=row.ts_ms,
        attempts=row.attempts,
        is_replay=row.replay_no > 0,
        event=event,
    )
