-- Fixed window, twin of fixed-window.ts. A state is (start, count).

-- Returns the time used as now, the window's start and count, and whether another clock wrote it.
local function view(begun, counted, limit, now)
  if begun == nil then return now, windowStart(now, limit), 0, false end
  local moved = isFromAnotherClock(begun, limit, now)
  local at = moved and now or most(now, begun)
  local start = windowStart(at, limit)
  -- A window of another length under the same name continues if it began within this one.
  if moved or begun >= start then return at, start, counted, moved end
  return at, start, 0, moved
end

-- `fits` is nil if waiting does not help.
local function step(at, start, count, moved, limit, now, granted, fits)
  local endsInMs = usToMsUp(start + limit.windowUs - now)
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
  local at, start, count, moved = view(begun, counted, limit, now)
  if amount == 0 then return step(at, start, count, false, limit, now, 0, true) end
  local granted = least(amount, limit.max - count)
  if granted >= atLeast then return step(at, start, count, moved, limit, now, granted, true) end
  if atLeast > limit.max then return step(at, start, count, moved, limit, now, 0, nil) end
  return step(at, start, count, moved, limit, now, 0, false)
end

local function expiresAt(begun, _, _, _, limit)
  return windowStart(begun, limit) + limit.windowUs
end
