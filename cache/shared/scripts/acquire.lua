-- Take the lease of a flight, or learn who has it or how it ended.
-- KEYS: the lease, how the last flight ended, the answer.
-- ARGV: owner, milliseconds of the lease, fence of the lease that was waited for (0: none).
-- Returns {'lease', fence, answer}, {'held', fence}, or {'ended', fence, outcome}.
-- A fence is the server's time in microseconds at which a lease began, so later leases have larger ones.
if ARGV[3] ~= '0' then
  local ended = redis.call('HMGET', KEYS[2], 'fence', 'outcome')
  if ended[1] == ARGV[3] then return {'ended', ended[1], ended[2]} end
end
local time = redis.call('TIME')
local fence = string.format('%.0f', time[1] * 1000000 + time[2])
if redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. fence, 'NX', 'PX', ARGV[2]) then
  return {'lease', fence, redis.call('GET', KEYS[3])}
end
return {'held', string.match(redis.call('GET', KEYS[1]), '%d+$')}
