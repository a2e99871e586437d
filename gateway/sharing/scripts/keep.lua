-- Keep one answer in its bucket, within the bucket's bytes.
-- KEYS: the answer, the bucket's index (names by the time at which they end), its sizes and fences.
-- ARGV: frame, name, milliseconds to keep it, the bucket's bytes, fence of the lease (0: no lease),
--       what precedes a name in an answer's key.
-- Returns 1 if the answer was kept.
-- An answer of a lease is refused if one of a later lease is kept. Answers that end first go first.
local frame, name, keep, bound, fence = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local size = #frame + 256
if size > bound then return 0 end

local total = tonumber(redis.call('HGET', KEYS[3], '') or '0')
local function forget(other)
  local kept = redis.call('HGET', KEYS[3], other)
  if kept then total = total - tonumber(string.match(kept, '^%d+')) end
  redis.call('HDEL', KEYS[3], other)
  redis.call('ZREM', KEYS[2], other)
end

local before = redis.call('HGET', KEYS[3], name)
if before and fence > 0 and redis.call('EXISTS', KEYS[1]) == 1
    and tonumber(string.match(before, '%d+$')) > fence then
  return 0
end
for _, other in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)) do
  forget(other)
end
forget(name)
while total + size > bound do
  local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  if not first then
    total = 0
    break
  end
  forget(first)
  redis.call('DEL', ARGV[6] .. first)
end
redis.call('SET', KEYS[1], frame, 'PX', keep)
redis.call('ZADD', KEYS[2], now + keep, name)
redis.call('HSET', KEYS[3], name, string.format('%d %.0f', size, fence), '', total + size)
for n = 2, 3 do
  redis.call('PEXPIRE', KEYS[n], math.max(redis.call('PTTL', KEYS[n]), keep + 60000))
end
return 1
