-- Admits a take of a calendar window in the most common case, like admit.lua of the token bucket,
-- and returns the same values. `starts` and `ends` are the edges of the window that the node takes
-- for the present one.
local function admitCalendarWindow(value, format, max, starts, ends, amount, now)
  local kept, start, count = 0, now, amount
  if amount == 0 or now < starts or now >= ends then return nil end
  if value then
    if #value ~= 16 then return nil end
    local found, begun, counted
    found, kept, begun, counted = struct.unpack('>BI4I7I4', value)
    if found ~= format or begun > now then return nil end
    if begun >= starts then start, count = begun, count + counted end
  end
  if count > max or count >= 4294967296 then return nil end
  local resetMs = (ends - now) / 1000
  return kept, max - count, resetMs + -resetMs % 1, now, ends, start, count
end
