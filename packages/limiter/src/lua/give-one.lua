-- Runs a batch of one give, which a call over several Cluster slots sends after its decision. Does
-- the same as batch.lua, with the same functions. Not for logs or the packed layout.

local notAfter, now, format, max, windowUs, capacity, p, q, tickUs, maxWaitUs, lent, scale,
  scaledWindow, _, _, amount, at, undone = cmsgpack.unpack(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if notAfter > 0 and now > notAfter then return cmsgpack.pack({ 0, now }) end
local limit = {
  max = max, windowUs = windowUs, capacity = capacity, p = p, q = q, tickUs = tickUs,
  maxWaitUs = maxWaitUs, lent = lent, scale = scale, scaledWindow = scaledWindow,
}

-- A key of another type counts as absent, as with MGET.
local algorithm, key, value = makeOther(), KEYS[1], redis.pcall('GET', KEYS[1])
local kept, a, b, c, d = 0, nil, nil, nil, nil
if type(value) == 'string' then
  kept, a, b, c, d = algorithm.readValue(value, format)
end
a, b, c, d = algorithm.give(a, b, c, d, limit, amount, now, at > 0 and at - 1 or nil, undone == 1)
if a ~= nil then
  local needed, ttl = 2 * algorithm.expiresAt(a, b, c, d, limit) - now, nil
  if needed + EARLY_US > kept * SPAN_US then
    kept = spanOf(needed, now)
    ttl = ttlOf(kept, now)
  end
  local changed = algorithm.packValue(format, kept, a, b, c, d)
  if ttl then
    redis.call('SET', key, changed, 'PX', ttl)
  elseif #changed == #value then
    redis.call('SETRANGE', key, '0', changed)
  else
    redis.call('SET', key, changed, 'KEEPTTL')
  end
end
return cmsgpack.pack({ 1, now, 0 })
