-- Decides a batch of one call with two groups of one limit each, which most calls over several
-- Cluster slots send to each slot. Does the same as batch.lua, with the same functions, in half the
-- time. The second limit is a sliding window counter. Not for logs, the packed layout, or limits
-- that charge on refusal.

local notAfter, now, format, max, windowUs, capacity, p, q, tickUs, maxWaitUs, lent, scale,
  scaledWindow, _, _, otherFormat, otherMax, otherWindowUs, otherCapacity, otherP, otherQ, otherTickUs,
  otherMaxWaitUs, otherLent, otherScale, otherScaledWindow, _, _, amount, otherAmount =
  cmsgpack.unpack(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if notAfter > 0 and now > notAfter then return cmsgpack.pack({ 0, now }) end
local limit = {
  max = max, windowUs = windowUs, capacity = capacity, p = p, q = q, tickUs = tickUs,
  maxWaitUs = maxWaitUs, lent = lent, scale = scale, scaledWindow = scaledWindow,
}

local function write(key, before, kept, expires, pack, valueFormat, a, b, c, d)
  local needed, ttl = 2 * expires - now, nil
  if needed + EARLY_US > kept * SPAN_US then
    kept = spanOf(needed, now)
    ttl = ttlOf(kept, now)
  end
  local changed = pack(valueFormat, kept, a, b, c, d)
  if ttl then
    redis.call('SET', key, changed, 'PX', ttl)
  elseif #changed == #before then
    redis.call('SETRANGE', key, '0', changed)
  else
    redis.call('SET', key, changed, 'KEEPTTL')
  end
end

-- A key of another type counts as absent.
local values = redis.call('MGET', KEYS[1], KEYS[2])
local value, kept, a, b, c, d = values[1], 0, nil, nil, nil, nil
if value then kept, a, b, c, d = readValue(value, format) end
local granted, remaining, resetMs, retryMs, delayMs, at, nextA, nextB, nextC, nextD, movedA, movedB,
  movedC, movedD = take(a, b, c, d, limit, amount, now, amount)
local isOpen = retryMs == 0
if not isOpen then nextA, nextB, nextC, nextD = movedA, movedB, movedC, movedD end
if nextA ~= nil then
  a, b, c, d = nextA, nextB, nextC, nextD
  write(KEYS[1], value, kept, expiresAt(a, b, c, d, limit), packValue, format, a, b, c, d)
end
local reply = { 1, now }
local size = answer(reply, 2, now, amount, not isOpen,
  granted, remaining, resetMs, retryMs, delayMs, at)
if not isOpen then size = sayState(reply, size, NUMBERS, a, b, c, d) end

-- The second group runs only if the first passes.
local other = makeOther()
limit = {
  max = otherMax, windowUs = otherWindowUs, capacity = otherCapacity, p = otherP, q = otherQ,
  tickUs = otherTickUs, maxWaitUs = otherMaxWaitUs, lent = otherLent, scale = otherScale,
  scaledWindow = otherScaledWindow,
}
value, kept, a, b, c, d = values[2], 0, nil, nil, nil, nil
if value then kept, a, b, c, d = other.readValue(value, otherFormat) end
if isOpen then
  granted, remaining, resetMs, retryMs, delayMs, at, nextA, nextB, nextC, nextD, movedA, movedB,
    movedC, movedD = other.take(a, b, c, d, limit, otherAmount, now, otherAmount)
  if retryMs ~= 0 then nextA, nextB, nextC, nextD = movedA, movedB, movedC, movedD end
  if nextA ~= nil then
    a, b, c, d = nextA, nextB, nextC, nextD
    local expires = other.expiresAt(a, b, c, d, limit)
    write(KEYS[2], value, kept, expires, other.packValue, otherFormat, a, b, c, d)
  end
else
  granted, remaining, resetMs, retryMs, delayMs, at =
    other.peek(a, b, c, d, limit, otherAmount, now)
end
size = answer(reply, size, now, otherAmount, retryMs ~= 0,
  granted, remaining, resetMs, retryMs, delayMs, at)
if retryMs ~= 0 then sayState(reply, size, other.numbers, a, b, c, d) end
return cmsgpack.pack(reply)
