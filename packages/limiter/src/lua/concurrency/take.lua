-- Concurrency, twin of concurrency.ts. A state is loaded places, see records.lua. In the limit,
-- windowUs is the lease.

local PLACES_MAX = 1000000000
local LEASE_US_MAX = 300000000
local RETRY_MS = 1000

-- Returns the records that have not expired, their places, when the last of them expires, and
-- whether another clock wrote one.
local function view(places, limit, now)
  local records, size, count, lastExpiry, moved = {}, 0, 0, 0, false
  local stored = places and places.records or records
  local furthest = now + most(limit.windowUs, LEASE_US_MAX)
  for index = 1, #stored, 3 do
    local held, expires = stored[index + 1], stored[index + 2]
    if expires > now then
      if expires > furthest then
        expires, moved = now + limit.windowUs, true
      end
      records[size + 1], records[size + 2], records[size + 3] = stored[index], held, expires
      size, count, lastExpiry = size + 3, count + held, most(lastExpiry, expires)
    end
  end
  return records, count, lastExpiry, moved
end

-- Returns the index of a holder's record; nil if it has none.
local function find(records, holder)
  for index = 1, #records, 3 do
    if records[index] == holder then return index end
  end
end

local function heldBy(records, holder)
  local index = find(records, holder)
  return index and records[index + 1] or 0
end

-- Returns places with this record in the place of the holder's; without it for no places. Changes
-- `records`.
local function withRecord(records, holder, held, expires)
  local index, size = find(records, holder), #records
  if held > 0 then
    index = index or size + 1
    records[index], records[index + 1], records[index + 2] = holder, held, expires
  elseif index then
    for at = index, size do records[at] = records[at + 3] end
  end
  return { records = records }
end

local function resetAfterMs(lastExpiry, now)
  return usToMsUp(most(0, lastExpiry - now))
end

-- Takes all or nothing: nobody leases places ahead of calls. Without a number the holder is 0.
local function take(places, _, _, _, limit, amount, now, _, holder)
  local records, count, lastExpiry, moved = view(places, limit, now)
  local left, resetMs = most(0, limit.max - count), resetAfterMs(lastExpiry, now)
  if amount == 0 then return 0, left, resetMs, 0, 0, now end
  local rebased = moved and { records = (view(places, limit, now)) } or nil
  if count + amount > limit.max then
    local retryMs
    if amount <= limit.max then retryMs = RETRY_MS end
    return 0, left, resetMs, retryMs, 0, now, nil, nil, nil, nil, rebased
  end
  holder = holder or 0
  local held = heldBy(records, holder) + amount
  local state = withRecord(records, holder, held, now + limit.windowUs)
  return amount, left - amount, usToMsUp(limit.windowUs), 0, 0, holder, state, nil, nil, nil, rebased
end

local function expiresAt(places)
  local records, last = places.records, 0
  for index = 3, #records, 3 do last = most(last, records[index]) end
  return last
end
