-- Put a message in the inbox of a process.
-- KEYS: its inbox, the sign that it lives. ARGV: message, most messages, milliseconds to keep them.
-- Returns 1, 0 if no such process lives, or -1 if its inbox is full.
if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
if redis.call('LLEN', KEYS[1]) >= tonumber(ARGV[2]) then return -1 end
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
