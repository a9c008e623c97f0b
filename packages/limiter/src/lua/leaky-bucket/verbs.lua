-- Leaky bucket: the verbs other than take. Continues take.lua.

local function peek(slot, rest, left, eldest, limit, amount, now)
  local moved, next, part, vacated, oldest, gap, ahead, idle =
    view(slot, rest, left, eldest, limit, now)
  local delayUs, waitUs = 0, 0
  if amount ~= 0 then
    if not everFits(limit, amount) then
      waitUs = nil
    else
      waitUs = waitFor(part, vacated, oldest, gap, idle, limit, amount)
      if waitUs <= 0 then delayUs = delayOf(part, gap, idle, limit) end
    end
  end
  return step(limit, now, 0, delayUs, waitUs, moved, next, part, vacated, oldest, gap, ahead, idle)
end

-- Frees at most as many places as the queue has; otherwise its end would move away for ever.
local function vacate(next, part, vacated, ahead, limit, amount, oldest)
  local freed = least(ahead, least(limit.capacity, vacated + amount))
  return next, part, freed, least(ahead, oldest)
end

-- Moves the next free slot `slots` slots earlier.
local function rewind(next, part, vacated, oldest, limit, slots)
  local parts = part - slots * limit.q
  local ticks = floorDiv(parts, limit.p)
  local before = most(0, oldest - slots)
  return next + ticks * limit.tickUs, parts - ticks * limit.p, least(vacated, before), before
end

-- Frees the slot `at`. Without `at` the slot is unknown, so only a place in the queue is freed. A
-- slot that has begun counts as used, unless the call was undone: then no call left in it.
local function give(slot, rest, left, eldest, limit, amount, now, at, undone)
  local _, next, part, vacated, oldest, _, ahead, idle =
    view(slot, rest, left, eldest, limit, now)
  if idle or amount > limit.capacity + 1 then return nil end
  if at == nil then return vacate(next, part, vacated, ahead, limit, amount, ahead) end
  if at <= now and not undone then return nil end

  local slotBefore, partBefore, vacatedBefore, oldestBefore =
    rewind(next, part, vacated, oldest, limit, amount)
  if slotBefore == at then return slotBefore, partBefore, vacatedBefore, oldestBefore end
  if at <= now then return nil end
  local slotTicks = floorDiv(next - at, limit.tickUs)
  local slots = floorDiv(slotTicks * limit.p + part, limit.q)
  if slots < 1 then return nil end
  return vacate(next, part, vacated, ahead, limit, least(amount, slots), most(oldest, slots))
end

local function charge(slot, rest, left, eldest, limit, amount, now)
  local _, next, part, vacated, oldest, gap, ahead, idle =
    view(slot, rest, left, eldest, limit, now)
  local places = limit.capacity - ahead + vacated + (idle and 1 or 0)
  local units = least(amount, places)
  if limit.capacity == 0 or units <= 0 then return nil end
  local slotAfter, partAfter, vacatedAfter, oldestAfter =
    join(next, part, vacated, oldest, gap, ahead, idle, limit, units)
  return slotAfter, partAfter, vacatedAfter, oldestAfter
end

return {
  take = take, peek = peek, give = give, charge = charge, expiresAt = expiresAt,
  readValue = readValue, packValue = packValue, numbers = NUMBERS,
}
