-- Decides a batch of one take of one limit, which is every batch while calls come one at a time.
-- Does the same as batch.lua without tables of counters, limits and algorithms, which would double
-- the time. Not for logs, the packed layout, limits that charge on refusal, or takes that do more
-- than take the whole amount.

local notAfter, now, format, max, windowUs, capacity, p, q, tickUs, maxWaitUs, lent, scale,
  scaledWindow, _, _, amount = cmsgpack.unpack(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if notAfter > 0 and now > notAfter then return cmsgpack.pack({ 0, now }) end

-- A key of another type counts as absent, as with MGET.
local key, value = KEYS[1], redis.pcall('GET', KEYS[1])
