-- Publish entries of clients. A revoked entry stays revoked.
-- KEYS: entries by id, their version. ARGV: pairs of id and entry (JSON).
-- Returns the version: it changes if an entry did.
local changed = false
for n = 1, #ARGV, 2 do
  local before = redis.call('HGET', KEYS[1], ARGV[n])
  if before ~= ARGV[n + 1] then
    local was_revoked = before and cjson.decode(before).revoked_at ~= cjson.null
    local is_revoked = cjson.decode(ARGV[n + 1]).revoked_at ~= cjson.null
    if is_revoked or not was_revoked then
      redis.call('HSET', KEYS[1], ARGV[n], ARGV[n + 1])
      changed = true
    end
  end
end
if changed then
  local time = redis.call('TIME')
  redis.call('SET', KEYS[2], string.format('%.0f', time[1] * 1000000 + time[2]))
end
return redis.call('GET', KEYS[2]) or '0'
