-- Replies to a take that passes by `admit`, before any other function is created. The parts that
-- differ between algorithms, the call of `admit` and the format of a value, precede this file.
if kept then
  local needed = 2 * expires - now
  if needed + EARLY_US > kept * SPAN_US then
    kept = spanOf(needed, now)
    redis.call('SET', key, struct.pack(NARROW, format, kept, a, b, c), 'PX', ttlOf(kept, now))
  else
    redis.call('SETRANGE', key, '0', struct.pack(NARROW, format, kept, a, b, c))
  end
  if at ~= now then return cmsgpack.pack(1, now, -8, left, resetMs, at - now) end
  return cmsgpack.pack(1, now, left, resetMs)
end
