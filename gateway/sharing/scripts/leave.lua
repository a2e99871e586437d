-- Say that a gateway is no longer there. KEYS: gateways. ARGV: gateway. Returns how many are left.
redis.call('ZREM', KEYS[1], ARGV[1])
return redis.call('ZCARD', KEYS[1])
