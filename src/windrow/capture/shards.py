"""Which shard a message belongs to: a hash of its key that no upgrade of anything may change.

Messages without a key go by their topic. A database's own hash functions may differ between versions, and a key that
moved to another shard would be lost or doubled behind that shard's position; SHA-256 stays what it is, also where MD5
is switched off.
"""

import hashlib

from psycopg.sql import SQL, Composable

from windrow.database.layouts import Layout
from windrow.record import Shard

_HASH = SQL("sha256(coalesce({key}, convert_to({topic}, 'UTF8')))")
_PREDICATES = {
    "postgresql": SQL("mod((get_byte({hash}, 0) << 8) | get_byte({hash}, 1), {shards}) = {shard}"),
    "mysql": SQL("mod(conv(left(sha2(coalesce({key}, {topic}), 256), 4), 16, 10), {shards}) = {shard}"),
}


def shard_of(key: bytes | None, topic: str, shards: int) -> int:
    """The same as `predicate`, for those outside the database."""
    digest = hashlib.sha256(topic.encode() if key is None else key).digest()
    return int.from_bytes(digest[:2], "big") % shards


def predicate(shard: Shard, layout: Layout) -> Composable:
    """An SQL condition that holds for the rows of one shard."""
    if shard.count == 1:
        return SQL("true")
    columns = layout.fragments()
    return _PREDICATES[layout.dialect].format(
        hash=_HASH.format(**columns), shards=SQL(str(shard.count)), shard=SQL(str(shard.index)), **columns
    )
