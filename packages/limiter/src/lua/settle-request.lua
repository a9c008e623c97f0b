-- Decides a batch of one settle, whose mark is not there yet and whose difference is admitted: SET NX
-- takes the mark, so that it needs not be read. In every other case nothing is changed, and
-- batch.lua follows, which reads the same request.

local notAfter, now, _, _, _, _, _, _, markMax, markWindowUs, _, _, _, _, _, _, _, _, _, _,
  format, max, windowUs, capacity, p, q, tickUs, _, lent, _, _, _, _, _, _, _, markAmount, _, _, _,
  amount, last = cmsgpack.unpack(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if notAfter > 0 and now > notAfter then return cmsgpack.pack({ 0, now }) end
