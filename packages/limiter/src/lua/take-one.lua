-- A batch of one take of one limit, as all are where calls come one at a time: the same as
-- batch.lua does, but without tables of counters, limits and algorithms, which take as long again.
-- Not for logs, for the packed layout, or limits that charge on refusal.

local notAfter, now, format, max, windowUs, capacity, p, q, tickUs, maxWaitUs, lent, scale,
  scaledWindow, _, amount = cmsgpack.unpack(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if notAfter > 0 and now > notAfter then return cmsgpack.pack({ 0, now }) end

-- What is of another type is absent, as it is to MGET.
local key, value = KEYS[1], redis.pcall('GET', KEYS[1])
