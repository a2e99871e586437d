-- Take the lease of a flight, or learn who has it or how it ended.
-- KEYS: the lease, how the last flight ended, the answer, the bucket's last fence.
-- ARGV: owner, milliseconds of the lease, fence of the lease that was waited for (0: none).
-- Returns {'lease', fence, answer}, {'held', fence}, or {'ended', fence, outcome}.
-- Fences rise by one. They begin with the server's time in microseconds, so that those after an emptied
-- Redis are larger than those before.
if ARGV[3] ~= '0' then
  local ended = redis.call('HMGET', KEYS[2], 'fence', 'outcome')
  if ended[1] == ARGV[3] then return {'ended', ended[1], ended[2]} end
end
if redis.call('EXISTS', KEYS[4]) == 0 then
  local time = redis.call('TIME')
  redis.call('SET', KEYS[4], string.format('%.0f', time[1] * 1000000 + time[2]))
end
local fence = string.format('%.0f', redis.call('GET', KEYS[4]) + 1)
if redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. fence, 'NX', 'PX', ARGV[2]) then
  redis.call('SET', KEYS[4], fence)
  return {'lease', fence, redis.call('GET', KEYS[3])}
end
return {'held', string.match(redis.call('GET', KEYS[1]), '%d+$') or '0'}
