-- Calendar window, twin of calendar-window.ts. A state is (start, count): when the first of its
-- units was taken, and how many there are. In the limit, p, q, tickUs, scale and scaledWindow are
-- edges around the node's estimate of the time: the starts of the window before the present one, of
-- the present, the next and the one after, and the end of that.

-- Returns the edges of the window that contains a time. Before the first edge and after the last
-- one, where only a node gets whose estimate is wrong by more than a window, windows of the usual
-- length follow: such a node admits at most one limit more.
local function windowOf(at, limit)
  local start, ends = limit.q, limit.tickUs
  if at >= ends then
    start, ends = ends, limit.scale
    if at >= ends then start, ends = ends, limit.scaledWindow end
  elseif at < start then
    start, ends = limit.p, start
  end
  if at >= start and at < ends then return start, ends end
  if at >= ends then start = ends end
  start = at - (at - start) % limit.windowUs
  return start, start + limit.windowUs
end

-- Returns the time used as now, the state's start and count, whether another clock wrote it, and
-- the edges of the window.
local function view(begun, counted, limit, now)
  local moved = begun ~= nil and isFromAnotherClock(begun, limit, now)
  local at = now
  if begun ~= nil and not moved then at = most(now, begun) end
  local starts, ends = windowOf(at, limit)
  if moved then return at, at, counted, true, starts, ends end
  -- A window of another unit or zone under the same name continues if it began within this one.
  if begun ~= nil and begun >= starts then return at, begun, counted, false, starts, ends end
  return at, at, 0, false, starts, ends
end

-- `fits` is nil if waiting does not help.
local function step(at, start, count, moved, ends, limit, now, granted, fits)
  local endsInMs = usToMsUp(ends - now)
  local left = most(0, limit.max - count - granted)
  local retryMs = 0
  if fits == nil then retryMs = nil elseif not fits then retryMs = endsInMs end
  if granted ~= 0 then
    if moved then
      return granted, left, endsInMs, retryMs, 0, at, start, count + granted, nil, nil, start, count
    end
    return granted, left, endsInMs, retryMs, 0, at, start, count + granted
  end
  if moved then
    return 0, left, endsInMs, retryMs, 0, at, start, count, nil, nil, start, count
  end
  return 0, left, endsInMs, retryMs, 0, at
end

local function take(begun, counted, _, _, limit, amount, now, atLeast)
  local at, start, count, moved, _, ends = view(begun, counted, limit, now)
  if amount == 0 then return step(at, start, count, false, ends, limit, now, 0, true) end
  local granted = least(amount, limit.max - count)
  if granted >= atLeast then return step(at, start, count, moved, ends, limit, now, granted, true) end
  if atLeast > limit.max then return step(at, start, count, moved, ends, limit, now, 0, nil) end
  return step(at, start, count, moved, ends, limit, now, 0, false)
end

local function expiresAt(begun, _, _, _, limit)
  local _, ends = windowOf(begun, limit)
  return ends
end
