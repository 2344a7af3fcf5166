"""The statements of one flush, in the order in which `history.write` runs them.

Every statement that writes takes its rows in one order, so that two flushers wait for
each other instead of ending in a deadlock.
"""

STAGE = """
CREATE TEMPORARY TABLE IF NOT EXISTS tracking_stage (
    device_id bigint, received_at timestamptz, fixed_at timestamptz,
    latitude float8, longitude float8, accuracy_m float8, speed_mps float8,
    course_deg float8, altitude_m float8, battery_pct float8,
    shown_at timestamptz, reason text, door text, is_stop boolean
) ON COMMIT DELETE ROWS
"""

# Inside a transaction that is not ours, a former batch may still be there.
EMPTY_STAGE = "TRUNCATE tracking_stage"

COPY = "COPY tracking_stage FROM STDIN"

LOCK_DEVICES = """
SELECT FROM tracking_device WHERE id IN (SELECT device_id FROM tracking_stage)
ORDER BY id FOR NO KEY UPDATE
"""

# The join drops what came from a device that has been deleted since.
INSERT = """
INSERT INTO tracking_position (
    device_id, received_at, fixed_at, latitude, longitude, accuracy_m, speed_mps,
    course_deg, altitude_m, battery_pct, reason, door)
SELECT s.device_id, s.received_at, s.fixed_at, s.latitude, s.longitude, s.accuracy_m,
    s.speed_mps, s.course_deg, s.altitude_m, s.battery_pct, s.reason, s.door
FROM tracking_stage s JOIN tracking_device d ON d.id = s.device_id
WHERE s.fixed_at IS NOT NULL
ORDER BY s.device_id, s.fixed_at, s.latitude, s.longitude
ON CONFLICT DO NOTHING
"""

# A stop compares arrival times, never the device's clock with ours.
SHOW = """
UPDATE tracking_device d SET
    last_fixed_at = n.shown_at, last_latitude = n.latitude,
    last_longitude = n.longitude, last_accuracy_m = n.accuracy_m,
    last_battery_pct = coalesce(n.battery_pct, d.last_battery_pct),
    active = d.stopped_at IS NULL OR n.received_at > d.stopped_at,
    tracking_since = CASE WHEN d.active THEN coalesce(d.tracking_since, n.received_at)
        WHEN d.stopped_at IS NULL OR n.received_at > d.stopped_at THEN n.received_at
        ELSE d.tracking_since END,
    stopped_at = CASE WHEN n.received_at > d.stopped_at THEN NULL ELSE d.stopped_at END
FROM (
    SELECT DISTINCT ON (device_id) * FROM tracking_stage WHERE shown_at IS NOT NULL
    ORDER BY device_id, shown_at DESC
) n
WHERE n.device_id = d.id
    AND (d.last_fixed_at IS NULL OR n.shown_at > d.last_fixed_at)
"""

HEAR = """
UPDATE tracking_device d SET last_received_at = h.received_at
FROM (
    SELECT device_id, max(received_at) AS received_at FROM tracking_stage GROUP BY 1
) h
WHERE h.device_id = d.id
    AND (d.last_received_at IS NULL OR h.received_at > d.last_received_at)
"""

STOP = """
UPDATE tracking_device d SET active = false, stopped_at = s.received_at
FROM (
    SELECT device_id, max(received_at) AS received_at FROM tracking_stage
    WHERE is_stop GROUP BY 1
) s
WHERE s.device_id = d.id
    AND (d.stopped_at IS NULL OR d.stopped_at < s.received_at)
    AND (d.tracking_since IS NULL OR d.tracking_since <= s.received_at)
    AND NOT EXISTS (
        SELECT FROM tracking_stage later WHERE later.device_id = d.id
        AND NOT later.is_stop AND later.shown_at IS NOT NULL
        AND later.received_at > s.received_at
    )
"""
