-- Block: the verbs other than take. Continues take.lua.

-- Units are never given back to a block.
local function give()
  return nil
end

-- Begins the next block, unless one lasts.
local function charge(ends, counted, _, _, limit, _, now)
  local _, times, isBlocked = view(ends, counted, limit, now)
  if isBlocked then return nil end
  return now + lengthUs(times + 1, limit), times + 1
end

return {
  take = take, peek = take, give = give, charge = charge, expiresAt = expiresAt,
  readValue = readValue, packValue = packValue, numbers = NUMBERS,
}
