-- Give back requests of a machine's part that were not sent.
-- KEYS: the parts by machine. ARGV: machine, requests. Returns the machine's part.
local part = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
part = math.max(part - tonumber(ARGV[2]), 0)
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', part))
end
return part
