-- Calendar window: the verbs other than take. Continues take.lua.

local function peek(begun, counted, _, _, limit, amount, now)
  local at, start, count, moved, _, ends = view(begun, counted, limit, now)
  if amount > limit.max then return step(at, start, count, moved, ends, limit, now, 0, nil) end
  local fits = amount == 0 or count + amount <= limit.max
  return step(at, start, count, moved, ends, limit, now, 0, fits)
end

local function give(begun, counted, _, _, limit, amount, now, takenAt)
  local at, start, count, _, starts, ends = view(begun, counted, limit, now)
  local from = takenAt or at
  if count == 0 or from < starts or from >= ends then return nil end
  return start, most(0, count - amount)
end

-- The start of a window ahead of now is not moved back to units that were spent before it: the
-- clock has stepped back.
local function charge(begun, counted, _, _, limit, amount, now, spentAt, debt)
  local _, start, count, _, starts = view(begun, counted, limit, now)
  if spentAt < starts then return nil end
  if start <= now then start = least(start, spentAt) end
  return start, most(count, least(count + amount, limit.max + debt))
end

return {
  take = take, peek = peek, give = give, charge = charge, expiresAt = expiresAt,
  readValue = readValue, packValue = packValue, numbers = NUMBERS,
}
