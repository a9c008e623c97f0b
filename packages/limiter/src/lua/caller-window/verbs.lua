-- Caller window: the verbs other than take. Continues take.lua.

local function peek(begun, counted, _, _, limit, amount, now)
  local at, start, count, isOpen, moved = view(begun, counted, limit, now)
  if amount > limit.max then return step(at, start, count, isOpen, moved, limit, now, 0, nil) end
  local fits = amount == 0 or count + amount <= limit.max
  return step(at, start, count, isOpen, moved, limit, now, 0, fits)
end

local function give(begun, counted, _, _, limit, amount, now, takenAt)
  local at, start, count, isOpen = view(begun, counted, limit, now)
  local from = takenAt or at
  if not isOpen or from < start or from >= start + limit.windowUs then return nil end
  return start, most(0, count - amount)
end

-- Units that were spent before the first known call began the window themselves, so its start moves
-- back to them. The start of a window ahead of now is not moved: the clock has stepped back.
local function charge(begun, counted, _, _, limit, amount, now, spentAt, debt)
  local at, start, count = view(begun, counted, limit, now)
  if spentAt + limit.windowUs <= at then return nil end
  if start <= now then start = least(start, spentAt) end
  return start, most(count, least(count + amount, limit.max + debt))
end

return {
  take = take, peek = peek, give = give, charge = charge, expiresAt = expiresAt,
  readValue = readValue, packValue = packValue, numbers = NUMBERS,
}
