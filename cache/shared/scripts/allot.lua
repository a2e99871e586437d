-- Allot a part of a quota to one machine, so that the parts of all never add up to more than it.
-- KEYS: the parts by machine, the epoch.
-- ARGV: machine, the part that it has, requests that it wants, the quota, the divisor of what is left,
--       milliseconds after the epoch in which nothing is allotted, milliseconds until the span ends.
-- Returns {the machine's part, requests allotted to all, milliseconds to wait}.
-- In a new epoch machines first report the parts that they have.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('SET', KEYS[2], string.format('%.0f', now), 'NX')
local part = math.max(tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0'), tonumber(ARGV[2]))
local all = part
local parts = redis.call('HGETALL', KEYS[1])
for n = 1, #parts, 2 do
  if parts[n] ~= ARGV[1] then all = all + tonumber(parts[n + 1]) end
end
local wait = tonumber(redis.call('GET', KEYS[2])) + tonumber(ARGV[6]) - now
local wanted = tonumber(ARGV[3])
if wait <= 0 and wanted > 0 then
  local rest = tonumber(ARGV[4]) - all
  local given = math.max(0, math.min(rest, math.max(wanted, math.floor(rest / ARGV[5]))))
  part, all = part + given, all + given
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', part))
redis.call('PEXPIRE', KEYS[1], ARGV[7])
return {part, all, math.max(wait, 0)}
