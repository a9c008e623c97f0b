-- Admits a take of a fixed window in the most common case, like admit.lua of the token bucket, and
-- returns the same values. An amount below 0 gives back to a window that has counted as much.
local function admitWindow(value, format, max, windowUs, amount, now)
  local kept, start, count = 0, now - now % windowUs, amount
  if amount == 0 then return nil end
  if value then
    if #value ~= 16 then return nil end
    local found, begun, counted
    found, kept, begun, counted = struct.unpack('>BI4I7I4', value)
    if found ~= format or begun > now then return nil end
    if begun >= start then count = count + counted end
  end
  if count < 0 or count > max or count >= 4294967296 then return nil end
  local ends = start + windowUs
  local resetMs = (ends - now) / 1000
  return kept, max - count, resetMs + -resetMs % 1, now, ends, start, count
end
