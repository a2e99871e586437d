-- End a lease and say how its flight ended; an empty outcome lets the next gateway fly.
-- KEYS: the lease, how the last flight ended.
-- ARGV: token, fence, outcome, milliseconds for which others may read the outcome.
-- Returns 1 if the lease was ours.
if string.match(redis.call('GET', KEYS[1]) or '', '^%S+') ~= ARGV[1] then return 0 end
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[2], 'fence', ARGV[2], 'outcome', ARGV[3])
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
end
return redis.call('DEL', KEYS[1])
