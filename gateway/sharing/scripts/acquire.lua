-- Take the lease of a flight, or learn who has it or how it ended.
-- KEYS: the lease, how the last flight ended, the answer, the bucket's last fence.
-- ARGV: token, milliseconds of the lease, fence of the lease that was waited for (0: none), the longest
--       answer to return.
-- Returns {'lease', fence, answer, 1 if there is a longer answer}, {'held', fence}, or
-- {'ended', fence, outcome}.
-- Fences rise by one. They begin with the server's time in microseconds, so that those after an emptied
-- Redis are larger than those before.
if ARGV[3] ~= '0' then
  local ended = redis.call('HMGET', KEYS[2], 'fence', 'outcome')
  if ended[1] == ARGV[3] then return {'ended', ended[1], ended[2]} end
end
local held = redis.call('GET', KEYS[1])
if held then return {'held', string.match(held, '%d+$') or '0'} end
local is_long = redis.call('STRLEN', KEYS[3]) > tonumber(ARGV[4])
local answer = not is_long and redis.call('GET', KEYS[3])
if redis.call('EXISTS', KEYS[4]) == 0 then
  local time = redis.call('TIME')
  redis.call('SET', KEYS[4], string.format('%.0f', time[1] * 1000000 + time[2]))
end
local fence = string.format('%.0f', redis.call('GET', KEYS[4]) + 1)
redis.call('SET', KEYS[4], fence)
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. fence, 'PX', ARGV[2])
return {'lease', fence, answer, is_long and 1 or 0}
