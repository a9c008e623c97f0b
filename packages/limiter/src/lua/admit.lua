-- Tries the fast paths of the algorithms that have one, on limits of batch.lua.

local OVERDRAW = -2

-- Whether units that were taken at `at` still count, so that they can be given back.
local function isCounted(limit, at)
  if limit.format == 4 then return at - at % limit.windowUs == now - now % limit.windowUs end
  if limit.format > 2 then return false end
  local ticks = limit.capacity * limit.q / limit.p
  return now - at < (ticks + -ticks % 1) * limit.tickUs
end

-- Returns the results of the algorithm's `admit` for a take; nothing unless it is certain to pass.
-- An overdraw that fits is a take like any other. An amount below 0 was taken at `last - 1`.
local function admit(value, limit, amount, last)
  local format = limit.format
  if amount < 0 then
    if last <= 0 or not isCounted(limit, last - 1) then return nil end
  elseif last ~= 0 and last ~= OVERDRAW then
    return nil
  end
  if format <= 2 then
    return admitBucket(value, format, limit.capacity, limit.lent, limit.p, limit.q,
      limit.tickUs, amount, now)
  end
  if format == 4 then
    return admitWindow(value, format, limit.max, limit.windowUs, amount, now)
  end
  if format == 7 then
    return admitCallerWindow(value, format, limit.max, limit.windowUs, amount, now)
  end
  if format == 9 then
    return admitCalendarWindow(value, format, limit.max, limit.q, limit.tickUs, amount,
      now)
  end
end
