-- Caller window, twin of caller-window.ts. A state is (start, count).

-- Returns the time used as now, the window's start and count, whether it is open, and whether
-- another clock wrote it.
local function view(begun, counted, limit, now)
  -- A window whose units were all given back has not begun.
  if begun == nil or counted == 0 then return now, now, 0, false, false end
  if isFromAnotherClock(begun, limit, now) then return now, now, counted, true, true end
  local at = most(now, begun)
  -- A window of another length under the same name continues if it would still be open.
  if at < begun + limit.windowUs then return at, begun, counted, true, false end
  return at, at, 0, false, false
end

-- `fits` is nil if waiting does not help.
local function step(at, start, count, isOpen, moved, limit, now, granted, fits)
  local endsInMs = usToMsUp(start + limit.windowUs - now)
  local left = most(0, limit.max - count - granted)
  -- A window that has not begun has no end.
  local resetMs, retryMs = (isOpen or granted > 0) and endsInMs or 0, 0
  if fits == nil then retryMs = nil elseif not fits then retryMs = endsInMs end
  if granted ~= 0 then
    if moved then
      return granted, left, resetMs, retryMs, 0, at, start, count + granted, nil, nil, start, count
    end
    return granted, left, resetMs, retryMs, 0, at, start, count + granted
  end
  if moved then
    return 0, left, resetMs, retryMs, 0, at, start, count, nil, nil, start, count
  end
  return 0, left, resetMs, retryMs, 0, at
end

local function take(begun, counted, _, _, limit, amount, now, atLeast)
  local at, start, count, isOpen, moved = view(begun, counted, limit, now)
  if amount == 0 then return step(at, start, count, isOpen, false, limit, now, 0, true) end
  local granted = least(amount, limit.max - count)
  if granted >= atLeast then
    return step(at, start, count, isOpen, moved, limit, now, granted, true)
  end
  if atLeast > limit.max then return step(at, start, count, isOpen, moved, limit, now, 0, nil) end
  return step(at, start, count, isOpen, moved, limit, now, 0, false)
end

local function expiresAt(begun, _, _, _, limit)
  return begun + limit.windowUs
end
