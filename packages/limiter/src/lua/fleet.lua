-- Runs one heartbeat of a node: extends its life, or removes it if it leaves; removes expired
-- nodes.
-- KEYS: the fleet, a sorted set of nodes by the store time at which each expires, in milliseconds;
--       the fingerprint of the key secret;
--       the places, a sorted set of the same nodes by name alone.
-- ARGV: the node; for how many milliseconds it lives, 0 if it leaves.
-- Returns how many nodes live; whether this one was among them before (1 or 0); the fingerprint,
-- '' if there is none; how many of the living have a lesser name, 0 if it leaves.
local fleet, places, node, life = KEYS[1], KEYS[3], ARGV[1], tonumber(ARGV[2])

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

redis.call('ZREMRANGEBYSCORE', fleet, '-inf', string.format('%.0f', now))
local known = redis.call('ZSCORE', fleet, node) and 1 or 0

local place = 0

if life > 0 then
  local expires = string.format('%.0f', now + life)
  -- A clock that stepped back left expiries too far ahead: they are moved to the latest valid one,
  -- so that nodes that have gone since expire in time.
  for _, ahead in ipairs(redis.call('ZRANGEBYSCORE', fleet, '(' .. expires, '+inf')) do
    redis.call('ZADD', fleet, expires, ahead)
  end
  redis.call('ZADD', fleet, expires, node)
  redis.call('ZADD', places, '0', node)
  -- Some nodes have expired, or sent a heartbeat with an older script that had no places.
  if redis.call('ZCARD', places) ~= redis.call('ZCARD', fleet) then
    redis.call('DEL', places)
    for _, each in ipairs(redis.call('ZRANGEBYSCORE', fleet, '-inf', '+inf')) do
      redis.call('ZADD', places, '0', each)
    end
  end
  redis.call('PEXPIRE', fleet, string.format('%.0f', 2 * life))
  redis.call('PEXPIRE', places, string.format('%.0f', 2 * life))
  -- All have the same score, so they are sorted by name.
  for i, each in ipairs(redis.call('ZRANGEBYSCORE', places, '0', '0')) do
    if each == node then place = i - 1 end
  end
else
  redis.call('ZREM', fleet, node)
  redis.call('ZREM', places, node)
end

return { redis.call('ZCARD', fleet), known, redis.call('GET', KEYS[2]) or '', place }
