"""A real Redis server for tests, which skip where none is installed."""

import pytest

from bench.speed.redis_server import RedisServer, free_port, is_installed, redis_server

__all__ = ["RedisServer", "free_port", "needs_redis", "redis_server"]

needs_redis = pytest.mark.skipif(not is_installed(), reason="redis-server is not installed")
