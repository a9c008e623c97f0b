-- Continues settle-request.lua: decides the settle, or leaves it to batch.lua.

local limit = {
  format = format, max = max, windowUs = windowUs, capacity = capacity, p = p, q = q,
  tickUs = tickUs, lent = lent,
}

-- A key of another type counts as absent, as with MGET.
local value = redis.pcall('GET', KEYS[2])
if type(value) ~= 'string' then value = false end
local kept, left, resetMs, at, expires, a, b, c = admit(value, limit, amount, last)
local _, markLeft, markResetMs, _, markEnds, start, count =
  admitCallerWindow(false, MARK_FORMAT, markMax, markWindowUs, markAmount, now)
if kept and start then
  local markKept = spanOf(2 * markEnds - now, now)
  local mark = struct.pack('>BI4I7I4', MARK_FORMAT, markKept, start, count)
  if redis.call('SET', KEYS[1], mark, 'PX', ttlOf(markKept, now), 'NX') then
    local needed, layout = 2 * expires - now, c and '>BI4I7I4I4' or '>BI4I7I4'
    if needed + EARLY_US > kept * SPAN_US then
      kept = spanOf(needed, now)
      local changed = struct.pack(layout, format, kept, a, b, c)
      redis.call('SET', KEYS[2], changed, 'PX', ttlOf(kept, now))
    else
      redis.call('SETRANGE', KEYS[2], '0', struct.pack(layout, format, kept, a, b, c))
    end
    if at == now then return cmsgpack.pack(1, now, markLeft, markResetMs, left, resetMs) end
    return cmsgpack.pack(1, now, markLeft, markResetMs, -8, left, resetMs, at - now)
  end
end
