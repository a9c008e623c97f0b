-- Token bucket and gcra: the verbs other than take. Continues take.lua.

local function peek(bucketAt, used, part, _, limit, amount, now)
  local inUse = inUseNow(bucketAt, used, part, limit, now)
  local at, moved = timeOf(bucketAt, limit, now, inUse)
  if amount > limit.capacity then return refuse(limit, now, inUse, at, moved, nil) end
  local waitUs = amount == 0 and 0 or waitFor(amount, inUse, at, limit, now)
  if waitUs > limit.maxWaitUs then
    return refuse(limit, now, inUse, at, moved, waitUs - limit.maxWaitUs)
  end
  return admit(limit, now, inUse, at, moved, 0, waitUs)
end

-- Whether the whole bucket has refilled since `at`, and with it what was taken then.
local function isRegained(at, limit, now)
  local ticks = limit.capacity * limit.q / limit.p
  return now - at >= (ticks + -ticks % 1) * limit.tickUs
end

-- Subtracts from the stored usage, not from what the limit can hold: a give under a lowered limit,
-- or one of another tier, must not cut what was used.
local function give(bucketAt, used, part, _, limit, amount, now, at)
  if bucketAt == nil or limit.capacity == 0 or isRegained(at or now, limit, now) then return nil end
  local p, q = limit.p, limit.q
  local before = used * q + (part < q and part or q - 1)
  -- Only a far larger limit can have so much in use, and this one cannot count its units.
  if before > 9007199254740991 then return nil end
  local ticks = (now - bucketAt) / limit.tickUs
  ticks = ticks > 0 and ticks - ticks % 1 or 0
  before = ticks >= before / p and 0 or before - ticks * p
  local after = before - amount * q
  local at = timeOf(bucketAt, limit, now, before)
  return toBucket(at, after > 0 and after or 0, limit)
end

local function charge(bucketAt, used, part, _, limit, amount, now, at, debt)
  if limit.capacity == 0 or isRegained(at, limit, now) then return nil end
  local before, lent = inUseNow(bucketAt, used, part, limit, now), limit.lent
  local most = (limit.capacity + (debt < lent and debt or lent)) * limit.q
  local units = limit.capacity + lent
  local charged = before + (amount < units and amount or units) * limit.q
  if charged > most then charged = most end
  if charged < before then charged = before end
  local at = timeOf(bucketAt, limit, now, before)
  return toBucket(at, charged, limit)
end

return {
  take = take, peek = peek, give = give, charge = charge, expiresAt = expiresAt,
  readValue = readValue, packValue = packValue, numbers = NUMBERS,
}
