"""Where Redis holds what belongs to a call: in one of `BUCKETS` buckets, by a hash of its key.

The keys of a bucket share a hash tag, so a cluster spreads buckets over its servers and a script
finds all that it needs on one of them.
"""

from zlib import crc32

from gateway.sharing.store import SharedStore

BUCKETS = 64


class Places:
    """The keys in Redis of the calls of one cache."""

    def __init__(self, store: SharedStore, cache_name: str) -> None:
        self._store = store
        self._cache_name = cache_name

    def of(self, kind: str, key: str = "") -> str:
        """The key of what `kind` names, of the call with that key."""
        return self.of_bucket(kind, self.bucket_of(key), key)

    def of_bucket(self, kind: str, bucket: int, key: str = "") -> str:
        """As `of`, of a bucket."""
        return self._store.key(kind, key, tag=f"{self._cache_name}:{bucket}")

    def bucket_of(self, key: str) -> int:
        """The bucket of a call."""
        return crc32(key.encode()) % BUCKETS
