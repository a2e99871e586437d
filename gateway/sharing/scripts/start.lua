-- Take starts at a host's rate, spaced evenly over all gateways (GCRA).
-- KEYS: the time in microseconds at which the next start is due.
-- ARGV: microseconds between starts, by how many of them a late start may be followed sooner, most starts.
-- Returns {starts taken, microseconds until the next one is due}.
local gap, late, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local due = tonumber(redis.call('GET', KEYS[1]) or '0')
local is_new = due > now + gap -- more than a gap ahead: the server's clock was set back
if is_new then due = now + gap end
local taken = 0
while taken < most and now >= due do
  due = math.max(due, now - late) + gap
  taken = taken + 1
end
if taken > 0 or is_new then
  redis.call('SET', KEYS[1], string.format('%.0f', due), 'PX', math.ceil((due - now) / 1000) + 60000)
end
return {taken, math.ceil(math.max(due - now, 0))}
