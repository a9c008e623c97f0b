-- Concurrency: the verbs other than take. Continues take.lua.

local function peek(places, _, _, _, limit, amount, now)
  local _, count, lastExpiry = view(places, limit, now)
  local left, resetMs = most(0, limit.max - count), resetAfterMs(lastExpiry, now)
  if amount > limit.max then return 0, left, resetMs, nil, 0, now end
  local fits = amount == 0 or count + amount <= limit.max
  return 0, left, resetMs, fits and 0 or RETRY_MS, 0, now
end

-- Gives back the places of the holder `at`; without a holder there is nothing to give back.
local function give(places, _, _, _, limit, amount, now, at)
  local records = view(places, limit, now)
  local index = at and find(records, at)
  if not index then return nil end
  return withRecord(records, at, most(0, records[index + 1] - amount), records[index + 2])
end

-- Renews the record of the holder `at` and makes it at least `amount` places; with a debt, exactly
-- as many. Renewing at least 0 places keeps a record that exists.
local function charge(places, _, _, _, limit, amount, now, at, debt)
  local records = view(places, limit, now)
  local before, held = heldBy(records, at), least(amount, PLACES_MAX)
  if debt == 0 then held = most(before, held) end
  if held == 0 and before == 0 then return nil end
  return withRecord(records, at, held, now + limit.windowUs)
end

return {
  take = take, peek = peek, give = give, charge = charge, expiresAt = expiresAt,
  open = openPlaces, write = writePlaces, say = sayPlaces,
}
