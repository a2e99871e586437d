-- Prolong a lease. KEYS: the lease. ARGV: owner and fence, milliseconds. Returns 1 if it was ours.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
