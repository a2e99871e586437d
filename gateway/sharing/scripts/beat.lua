-- Say that a gateway is there, add its counts to those of all, and learn what concerns all.
-- KEYS: gateways by the time of their last beat, the epoch, the version of the clients, the counts.
-- ARGV: gateway, milliseconds after which one that is silent is gone, then pairs of name and count.
-- Returns {server time in microseconds, gateways, epoch, version of the clients}.
-- The epoch is the time in milliseconds at which this Redis was first seen empty.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + ARGV[2], '+inf') -- if the clock was set back
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local epoch = tonumber(redis.call('GET', KEYS[2]) or '')
if not epoch or epoch > now then -- an emptied Redis, or a clock that was set back
  epoch = now
  redis.call('SET', KEYS[2], string.format('%.0f', now))
end
for n = 3, #ARGV, 2 do
  redis.call('HINCRBY', KEYS[4], ARGV[n], ARGV[n + 1])
end
return {
  string.format('%.0f', time[1] * 1000000 + time[2]),
  redis.call('ZCARD', KEYS[1]),
  string.format('%.0f', epoch),
  redis.call('GET', KEYS[3]) or '0',
}
