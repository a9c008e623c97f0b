-- Sliding window counter: the verbs other than take. Continues take.lua.

local function peek(begun, counted, last, _, limit, amount, now)
  local at, start, curr, prev, moved = view(begun, counted, last, limit, now)
  if amount == 0 or free(at, start, curr, prev, limit) >= amount then
    return admit(at, start, curr, prev, moved, limit, now, 0)
  end
  return refuse(at, start, curr, prev, moved, limit, amount, now)
end

-- Returns units to the window they were taken in; the previous window still counts.
local function give(begun, counted, last, _, limit, amount, now, at)
  if begun == nil then return nil end
  local seenAt, start, curr, prev = view(begun, counted, last, limit, now)
  local from = windowStart(at or seenAt, limit)
  if from == start then return start, most(0, curr - amount), prev end
  if from == start - limit.windowUs then return start, curr, most(0, prev - amount) end
  return nil
end

local function charge(begun, counted, last, _, limit, amount, now, at, debt)
  local _, start, curr, prev = view(begun, counted, last, limit, now)
  local full = limit.max + debt
  if at >= start then return start, most(curr, least(curr + amount, full)), prev end
  if at >= start - limit.windowUs then
    return start, curr, most(prev, least(prev + amount, full))
  end
  return nil
end

return {
  take = take, peek = peek, give = give, charge = charge, expiresAt = expiresAt,
  readValue = readValue, packValue = packValue, numbers = NUMBERS,
}
