-- Allot a part of a quota to one machine, so that the parts of all never add up to more than it.
-- KEYS: the parts by machine, the epoch.
-- ARGV: machine, the part that it has, requests that it wants, the quota, the divisor of what is left,
--       milliseconds after the epoch in which nothing is allotted, milliseconds until the span ends,
--       how many it knows to be allotted to all.
-- Returns {the machine's part, requests allotted to all, milliseconds to wait}.
-- In a new epoch machines first report the parts that they have, and what they know of the others'.
-- What is known is kept without a machine's name: it counts for machines that are not there to report.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local epoch = tonumber(redis.call('GET', KEYS[2]) or '')
if not epoch or epoch > now then -- an emptied Redis, or a clock that was set back
  epoch = now
  redis.call('SET', KEYS[2], string.format('%.0f', now))
end
local part = math.max(tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0'), tonumber(ARGV[2]))
local sum, known = part, tonumber(ARGV[8])
local parts = redis.call('HGETALL', KEYS[1])
for n = 1, #parts, 2 do
  local number = tonumber(parts[n + 1])
  if parts[n] == '' then
    known = math.max(known, number)
  elseif parts[n] ~= ARGV[1] then
    sum = sum + number
  end
end
local all = math.max(sum, known)
local wait = epoch + tonumber(ARGV[6]) - now
local wanted = tonumber(ARGV[3])
if wait <= 0 and wanted > 0 then
  local rest = tonumber(ARGV[4]) - all
  local given = math.max(0, math.min(rest, math.max(wanted, math.floor(rest / ARGV[5]))))
  part, sum, all = part + given, sum + given, all + given
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', part))
if all > sum then
  redis.call('HSET', KEYS[1], '', string.format('%.0f', all))
else
  redis.call('HDEL', KEYS[1], '')
end
redis.call('PEXPIRE', KEYS[1], ARGV[7])
return {part, all, math.max(wait, 0)}
