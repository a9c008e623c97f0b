-- Continues take-one.lua: decides a take of any outcome with the functions of its algorithm.

local limit = {
  max = max, windowUs = windowUs, capacity = capacity, p = p, q = q, tickUs = tickUs,
  maxWaitUs = maxWaitUs, lent = lent, scale = scale, scaledWindow = scaledWindow,
}
local kept, a, b, c, d = 0, nil, nil, nil, nil
if type(value) == 'string' then
  kept, a, b, c, d = readValue(value, format)
end
local granted, remaining, resetMs, retryMs, delayMs, at, nextA, nextB, nextC, nextD, movedA, movedB,
  movedC, movedD = take(a, b, c, d, limit, amount, now, amount)
local isRefused = retryMs ~= 0
if isRefused then nextA, nextB, nextC, nextD = movedA, movedB, movedC, movedD end
if nextA ~= nil then
  a, b, c, d = nextA, nextB, nextC, nextD
  local needed, ttl = 2 * expiresAt(a, b, c, d, limit) - now, nil
  if needed + EARLY_US > kept * SPAN_US then
    kept = spanOf(needed, now)
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
