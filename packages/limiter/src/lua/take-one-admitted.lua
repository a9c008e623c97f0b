-- Replies to a take that `admit` found to pass, before any other function is made. What differs
-- between algorithms, the call of `admit` and the form of a value, stands before this.
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
