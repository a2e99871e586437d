-- Prolong a lease. KEYS: the lease. ARGV: token, milliseconds. Returns 1 if it was ours.
if string.match(redis.call('GET', KEYS[1]) or '', '^%S+') ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
