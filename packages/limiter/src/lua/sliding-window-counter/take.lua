-- Sliding window counter, twin of sliding-window-counter.ts. A state is (start, curr, prev).

-- Returns the time used as now, the window's start, both counts, and whether another clock wrote
-- it.
local function view(begun, counted, last, limit, now)
  if begun == nil then return now, windowStart(now, limit), 0, 0, false end
  local moved = isFromAnotherClock(begun, limit, now)
  local at = moved and now or most(now, begun)
  local start = windowStart(at, limit)
  if moved or begun >= start then return at, start, counted, last, moved end
  if begun >= start - limit.windowUs then return at, start, 0, counted, moved end
  return at, start, 0, 0, moved
end

-- Returns the whole units free now.
local function free(at, start, curr, prev, limit)
  local scaledWindow = limit.scaledWindow
  local left = least(ceilDiv(start + limit.windowUs - at, limit.scale), scaledWindow)
  return floorDiv((limit.max - curr) * scaledWindow - prev * left, scaledWindow)
end

-- Returns the longest rest of a window at which `room` units are free while `before` fade out.
local function leftWhenItFits(before, room, limit)
  if room < 0 then return 0 end
  if before <= room then return limit.windowUs end
  return floorDiv(room * limit.scaledWindow, before) * limit.scale
end

-- Returns the microseconds until the amount fits: within this window, the next, or the one after.
local function waitFor(at, start, curr, prev, limit, amount, now)
  if free(at, start, curr, prev, limit) >= amount then return 0 end
  local ends = start + limit.windowUs
  local here = leftWhenItFits(prev, limit.max - curr - amount, limit)
  if here > 0 then return ends - here - now end
  local next = leftWhenItFits(curr, limit.max - amount, limit)
  return ends + limit.windowUs - least(next, limit.windowUs) - now
end

local function resetAfterMs(start, curr, prev, limit, now)
  if curr > 0 then return usToMsUp(start + 2 * limit.windowUs - now) end
  if prev > 0 then return usToMsUp(start + limit.windowUs - now) end
  return 0
end

local function admit(at, start, curr, prev, moved, limit, now, granted)
  local after = curr + granted
  local left = most(0, free(at, start, after, prev, limit))
  local resetMs = resetAfterMs(start, after, prev, limit, now)
  if moved then
    return granted, left, resetMs, 0, 0, at, start, after, prev, nil, start, curr, prev
  end
  if granted == 0 then return 0, left, resetMs, 0, 0, at end
  return granted, left, resetMs, 0, 0, at, start, after, prev
end

local function refuse(at, start, curr, prev, moved, limit, amount, now)
  local left = most(0, free(at, start, curr, prev, limit))
  local resetMs = resetAfterMs(start, curr, prev, limit, now)
  local cure
  if amount <= limit.max then
    cure = usToMsUp(waitFor(at, start, curr, prev, limit, amount, now))
  end
  if moved then
    return 0, left, resetMs, cure, 0, at, nil, nil, nil, nil, start, curr, prev
  end
  return 0, left, resetMs, cure, 0, at
end

local function take(begun, counted, last, _, limit, amount, now, atLeast)
  local at, start, curr, prev, moved = view(begun, counted, last, limit, now)
  if amount == 0 then return admit(at, start, curr, prev, false, limit, now, 0) end
  local granted = least(amount, free(at, start, curr, prev, limit))
  if granted >= atLeast then return admit(at, start, curr, prev, moved, limit, now, granted) end
  return refuse(at, start, curr, prev, moved, limit, atLeast, now)
end

local function expiresAt(begun, counted, _, _, limit)
  return windowStart(begun, limit) + (counted > 0 and 2 or 1) * limit.windowUs
end
