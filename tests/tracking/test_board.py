"""The board of a fleet: what changed since a tick, and where. No server needed."""

from tracking.board import TOMBSTONES_KEPT_TICKS, Board
from tracking.cells import at_level
from tracking.hub import Hub
from tracking.watchers import Sight, View, Watcher

HERE, THERE = (536, 358), (548, 380)
LEVEL = 10


def view(*cells, devices=(), fleets=(1,)) -> View:
    return View(Sight(tuple(fleets), tuple(devices)), LEVEL, frozenset(cells))


def test_a_snapshot_is_the_truth_even_where_it_is_older():
    board = Board()
    board.put("7", HERE, 2000, "newest", 1)
    board.replace({"7": (THERE, 1000, "older")}, 2)
    assert board.changed(LEVEL, THERE, 1).items == ["older"]
    assert board.changed(LEVEL, HERE, 1).gone == ["7"]
    board.put("7", HERE, 900, "late", 3)
    assert board.spots["7"].fragment == "older"


def test_one_device_that_moves_elsewhere_is_no_news_for_a_view_it_was_never_in():
    board = Board()
    board.put("7", HERE, 1000, "a", 1)
    board.put("7", HERE, 2000, "b", 2)
    away = board.changed_devices(["7"], LEVEL, frozenset({THERE}), 1)
    assert (away.items, away.gone) == ([], [])
    board.put("7", THERE, 3000, "c", 3)
    left = board.changed_devices(["7"], LEVEL, frozenset({HERE}), 2)
    assert (left.items, left.gone) == ([], ["7"])
    coarse = frozenset({at_level(HERE, 3)})
    assert board.changed_devices(["7"], 3, coarse, 2).items == ["c"]


def test_a_device_on_two_boards_is_gone_only_from_both():
    hub = Hub()
    hub.boards = {1: Board(), 2: Board()}
    hub.boards[1].put("7", HERE, 1000, "a", 1)
    hub.boards[2].put("7", HERE, 2000, "b", 2)
    hub.boards[1].remove("7", 2)
    both, one = view(HERE, fleets=(1, 2)), view(HERE, fleets=(1,))
    assert hub._changes(both, 1).gone == []
    assert hub._changes(both, 1).items == ["b"]
    assert hub._changes(one, 1).gone == ["7"]


async def test_a_watcher_older_than_what_is_remembered_gets_all_again():
    sent = []

    async def send(message):
        sent.append(message["text"])

    hub = Hub()

    hub.boards[1] = board = Board()
    board.put("7", HERE, 1000, "{}", hub.tick)
    watcher = Watcher(1, Sight((1,)), send)
    hub.watchers.add(watcher)
    watcher.look_at(None)
    hub.run_tick()
    board.remove("7", hub.tick + 1)
    hub.tick += TOMBSTONES_KEPT_TICKS + 1
    board.prune(hub.tick + 1)
    hub.run_tick()
    assert '"full":true' in sent[-1]
    assert '"items":[]' in sent[-1]
