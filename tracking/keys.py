"""Every Redis key and channel of tracking. Nothing else builds one.

All keys and channels of a fleet carry its hash tag, so that they live on one node of
a Cluster and one script may touch them.
"""

from zlib import crc32

SHARDS = 8
EPOCH = "drover:tracking:epoch"
CONTROL_GROUP = "tracking.control"


def _fleet(fleet_id: int) -> str:
    return f"drover:{{fleet:{fleet_id}}}"


def state_prefix(fleet_id: int) -> str:
    return f"{_fleet(fleet_id)}:state:"


def state(fleet_id: int, device_id: int) -> str:
    """Hash: what the filters know of a device. Seven days after its last word."""
    return f"{state_prefix(fleet_id)}{device_id}"


def live_prefix(fleet_id: int) -> str:
    return f"{_fleet(fleet_id)}:live:"


def live(fleet_id: int, device_id: int | str) -> str:
    """String "<cell> <fixed_at ms> <JSON>": the live position. TTL two minutes."""
    return f"{live_prefix(fleet_id)}{device_id}"


def active(fleet_id: int) -> str:
    """Sorted set: device → the moment (ms) at which it counts as lost."""
    return f"{_fleet(fleet_id)}:active"


def ended(fleet_id: int) -> str:
    """Sorted set: stopped device → the moment (ms) at which it leaves the map."""
    return f"{_fleet(fleet_id)}:ended"


def cell_prefix(fleet_id: int) -> str:
    return f"{_fleet(fleet_id)}:cell:"


def cell(fleet_id: int, name: str) -> str:
    """Set: the live devices of one cell."""
    return f"{cell_prefix(fleet_id)}{name}"


def sequence(fleet_id: int) -> str:
    """Hash: cell → number of changes published for it."""
    return f"{_fleet(fleet_id)}:seq"


def buffer(fleet_id: int) -> str:
    """Stream: fixes and stops that PostgreSQL does not have yet."""
    return f"{_fleet(fleet_id)}:buffer"


def channel(fleet_id: int, cell_name: str) -> str:
    """Pub/sub channel of the shard that a cell belongs to."""
    return f"{_fleet(fleet_id)}:shard:{crc32(cell_name.encode()) % SHARDS}"


def channels(fleet_id: int) -> list[str]:
    return [f"{_fleet(fleet_id)}:shard:{number}" for number in range(SHARDS)]
