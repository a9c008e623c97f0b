-- A batch of one take of one limit, as all are where calls come one at a time: the same as
-- batch.lua does, by the same functions, but without tables of counters, limits and algorithms,
-- which take as long again. Not for logs, for the packed layout, or limits that charge on refusal.

local notAfter, now, format, max, windowUs, capacity, p, q, tickUs, maxWaitUs, lent, scale,
  scaledWindow, _, amount = cmsgpack.unpack(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if notAfter > 0 and now > notAfter then return cmsgpack.pack({ 0, now }) end
local limit = {
  max = max, windowUs = windowUs, capacity = capacity, p = p, q = q, tickUs = tickUs,
  maxWaitUs = maxWaitUs, lent = lent, scale = scale, scaledWindow = scaledWindow,
}

-- What is of another type is absent, as it is to MGET.
local key, value, kept, a, b, c, d = KEYS[1], redis.pcall('GET', KEYS[1]), 0, nil, nil, nil, nil
if type(value) == 'string' then
  kept, a, b, c, d = readValue(value, format)
end
local granted, remaining, resetMs, retryMs, delayMs, at, nextA, nextB, nextC, nextD, movedA, movedB,
  movedC, movedD = take(a, b, c, d, limit, amount, now, amount)
local isRefused = retryMs ~= 0
if isRefused then nextA, nextB, nextC, nextD = movedA, movedB, movedC, movedD end
if nextA ~= nil then
  a, b, c, d = nextA, nextB, nextC, nextD
  local expires, ttl = expiresAt(a, b, c, d, limit), nil
  if expires + EARLY_US > kept * SPAN_US then
    kept = spanOf(2 * expires - now, now)
    ttl = ttlOf(kept, now)
  end
  local changed = packValue(format, kept, a, b, c, d)
  if ttl then
    redis.call('SET', key, changed, 'PX', ttl)
  elseif #changed == #value then
    redis.call('SETRANGE', key, '0', changed)
  else
    redis.call('SET', key, changed, 'KEEPTTL')
  end
end
local reply = { 1, now }
local size = answer(reply, 2, now, amount, isRefused,
  granted, remaining, resetMs, retryMs, delayMs, at)
if isRefused then sayState(reply, size, NUMBERS, a, b, c, d) end
return cmsgpack.pack(reply)
