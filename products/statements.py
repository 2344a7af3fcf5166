"""The SQL of the batch path, built once from the fields of a ProductRecord.

Before it: `records.FIELDS`. After it: `upsert`, which alone runs them.
"""

from typing import Any

from products.records import FIELDS, HASH_VERSION, ProductRecord

TABLE = "products_product"
_TYPES = {
    "price": "numeric",
    "sale_price": "numeric",
    "stock": "integer",
    "modified_at": "timestamptz",
}
_COLUMNS = ", ".join(FIELDS)
_NEW = ", ".join(
    f"{name} {_TYPES.get(name, 'text')}"
    for name in ("external_id", "content_hash", *FIELDS)
)

# \x1f cannot be part of an id; one text is parsed faster than an array parameter.
READ_HASHES = f"""
SELECT external_id, content_hash, source_time, withdrawn_at IS NOT NULL
FROM {TABLE}
WHERE source_id = %s AND external_id = ANY(string_to_array(%s, E'\\x1f'))
"""  # noqa: S608

COPY_NEW = f"""
COPY {TABLE} (source_id, source_time, hash_version, locked_fields, content_hash,
              external_id, {_COLUMNS})
FROM STDIN
"""


def _set_clause(old: str, new: str) -> str:
    """Every field takes the new value unless an editor locked it."""
    return ", ".join(
        f"{f} = CASE WHEN '{f}' = ANY({old}.locked_fields) "
        f"THEN {old}.{f} ELSE {new}.{f} END"
        for f in FIELDS
    )


# A row written by an event later than the page was fetched is left alone; a withdrawn
# row that is back is written even if nothing else changed.
_MAY_WRITE = """
(p.content_hash IS DISTINCT FROM {hash} OR p.withdrawn_at IS NOT NULL)
AND (p.source_time IS NULL OR p.source_time <= {time})
"""

UPDATE_CHANGED = f"""
UPDATE {TABLE} p
SET {_set_clause("p", "s")}, content_hash = decode(s.content_hash, 'hex'),
    hash_version = {HASH_VERSION}, source_time = %(time)s, withdrawn_at = NULL,
    updated_at = statement_timestamp()
FROM json_to_recordset(%(rows)s::json) s({_NEW})
WHERE p.source_id = %(source)s AND p.external_id = s.external_id AND
{_MAY_WRITE.format(hash="decode(s.content_hash, 'hex')", time="%(time)s")}
RETURNING p.external_id
"""  # noqa: S608

# Only after COPY met a row that another writer had just inserted.
INSERT_OR_UPDATE = f"""
INSERT INTO {TABLE} AS p (source_id, source_time, hash_version, locked_fields,
                          content_hash, external_id, {_COLUMNS})
SELECT %(source)s, %(time)s, {HASH_VERSION}, '{{}}', decode(s.content_hash, 'hex'),
       s.external_id, {", ".join(f"s.{f}" for f in FIELDS)}
FROM json_to_recordset(%(rows)s::json) s({_NEW})
ORDER BY s.external_id
ON CONFLICT (source_id, external_id) DO UPDATE
SET {_set_clause("p", "excluded")}, content_hash = excluded.content_hash,
    hash_version = excluded.hash_version, source_time = excluded.source_time,
    withdrawn_at = NULL, updated_at = statement_timestamp()
WHERE {_MAY_WRITE.format(hash="excluded.content_hash", time="excluded.source_time")}
RETURNING p.external_id, xmax = 0
"""  # noqa: S608


def as_json(record: ProductRecord, content_hash: bytes) -> dict[str, Any]:
    """One element of `rows` above; prices as text, so that no digit is lost."""
    row: dict[str, Any] = record._asdict()
    row["price"] = None if record.price is None else str(record.price)
    row["sale_price"] = None if record.sale_price is None else str(record.sale_price)
    row["content_hash"] = content_hash.hex()
    return row
