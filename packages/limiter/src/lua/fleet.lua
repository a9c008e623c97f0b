-- One beat of a node: it lives for a while longer, or leaves; the expired are removed.
-- KEYS: the fleet, a sorted set of nodes by the store time at which each expires, in milliseconds;
--       the fingerprint of the key secret.
-- ARGV: the node; for how many milliseconds it lives, 0 if it leaves.
-- Returns how many nodes live; whether this one was among them before (1 or 0); the fingerprint,
-- '' if there is none.
local fleet, node, life = KEYS[1], ARGV[1], tonumber(ARGV[2])

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

redis.call('ZREMRANGEBYSCORE', fleet, '-inf', string.format('%.0f', now))
local known = redis.call('ZSCORE', fleet, node) and 1 or 0

if life > 0 then
  local expires = string.format('%.0f', now + life)
  -- A clock that stepped back left expiries that nobody lives to see: they are moved to the latest
  -- there can be, and whoever has gone since is removed in its time.
  for _, ahead in ipairs(redis.call('ZRANGEBYSCORE', fleet, '(' .. expires, '+inf')) do
    redis.call('ZADD', fleet, expires, ahead)
  end
  redis.call('ZADD', fleet, expires, node)
  redis.call('PEXPIRE', fleet, string.format('%.0f', 2 * life))
else
  redis.call('ZREM', fleet, node)
end

return { redis.call('ZCARD', fleet), known, redis.call('GET', KEYS[2]) or '' }
