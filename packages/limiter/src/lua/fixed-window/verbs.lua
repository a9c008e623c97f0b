-- Fixed window: the verbs other than take. Continues take.lua.

local function peek(begun, counted, _, _, limit, amount, now)
  local at, start, count, moved = view(begun, counted, limit, now)
  if amount > limit.max then return step(at, start, count, moved, limit, now, 0, nil) end
  local fits = amount == 0 or count + amount <= limit.max
  return step(at, start, count, moved, limit, now, 0, fits)
end

local function give(begun, counted, _, _, limit, amount, now, at)
  if begun == nil then return nil end
  local seenAt, start, count = view(begun, counted, limit, now)
  if windowStart(at or seenAt, limit) ~= start then return nil end
  return start, most(0, count - amount)
end

local function charge(begun, counted, _, _, limit, amount, now, at, debt)
  local _, start, count = view(begun, counted, limit, now)
  if at < start then return nil end
  return start, most(count, least(count + amount, limit.max + debt))
end

return {
  take = take, peek = peek, give = give, charge = charge, expiresAt = expiresAt,
  readValue = readValue, packValue = packValue, numbers = NUMBERS,
}
