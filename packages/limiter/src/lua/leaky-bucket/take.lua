-- Leaky bucket, twin of leaky-bucket.ts. A state is (next, part, vacated, oldest): the next free
-- slot in microseconds and p-ths of a tick, places freed by calls that left the queue, and how many
-- slots before `next` the first of these is.
--
-- A view is that state as of now, plus gap (microseconds from now to `next`), ahead (units whose
-- slot is still to come) and idle (the queue is empty), always passed in this order.

-- Moves the next free slot `amount` slots later.
local function join(next, part, vacated, oldest, gap, ahead, idle, limit, amount)
  local parts = part + amount * limit.q
  local ticks = floorDiv(parts, limit.p)
  local us = ticks * limit.tickUs
  return next + us, parts - ticks * limit.p, vacated, vacated > 0 and oldest + amount or 0,
    gap + us, idle and amount - 1 or ahead + amount, false
end

-- Returns whether another clock wrote the state, then the view.
local function view(slot, rest, left, eldest, limit, now)
  if slot == nil or limit.capacity == 0 then return false, now, 0, 0, 0, 0, 0, true end
  local p, q, tickUs = limit.p, limit.q, limit.tickUs
  local part = least(rest, p - 1)
  -- A full queue, twice, to include the places of calls that left: no queue written by this clock
  -- is longer.
  local longestTicks = ceilDiv(2 * (limit.capacity + 1) * q, p)
  local gap = slot - now
  if gap <= 0 and gap * p + part * tickUs <= 0 then return false, now, 0, 0, 0, 0, 0, true end
  if gap > longestTicks * tickUs + limit.windowUs then
    -- Replaces the queue of another clock with a full queue that starts now.
    return true, join(now, 0, 0, 0, 0, 0, true, limit, limit.capacity + 1)
  end

  local gapTicks = least(ceilDiv(gap, tickUs), longestTicks)
  local ahead = ceilDiv(gapTicks * p + part, q) - 1
  local passed = most(0, eldest - ahead)
  local vacated = least(limit.capacity, most(0, left - passed))
  local oldest = vacated == 0 and 0 or least(eldest, ahead)
  return false, slot, part, vacated, oldest, gap, ahead, false
end

-- Returns the microseconds until a call that joins now would leave.
local function delayOf(part, gap, idle, limit)
  if idle then return 0 end
  return most(0, gap + ceilDiv(part * limit.tickUs, limit.p))
end

-- Returns the microseconds until at most `room` units are ahead; -1 waits for an idle bucket.
local function timeUntilAhead(room, part, gap, idle, limit)
  -- Without a rate no call waits, and the division below would be by zero.
  if idle then return 0 end
  local untilIdle = delayOf(part, gap, idle, limit)
  if room < 0 then return untilIdle end
  local ticks = floorDiv((room + 1) * limit.q - part, limit.p)
  return most(0, least(untilIdle, gap - ticks * limit.tickUs))
end

-- Returns the microseconds until there are places for the amount and a slot near enough.
local function waitFor(part, vacated, oldest, gap, idle, limit, amount)
  if idle then return 0 end
  local free = limit.capacity - amount
  local spared = free >= oldest - vacated and free + vacated or free
  local forPlace = timeUntilAhead(most(-1, spared), part, gap, idle, limit)
  return most(forPlace, delayOf(part, gap, idle, limit) - limit.maxWaitUs)
end

local function step(limit, now, granted, delayUs, waitUs, moved,
    next, part, vacated, oldest, gap, ahead, idle)
  local slot, rest, left, eldest = next, part, vacated, oldest
  local space, waiting, empty = gap, ahead, idle
  if granted ~= 0 then
    slot, rest, left, eldest, space, waiting, empty =
      join(next, part, vacated, oldest, gap, ahead, idle, limit, granted)
  end
  local places = least(limit.capacity, most(0, limit.capacity - waiting + left))
  local resetMs = usToMsUp(timeUntilAhead(0, rest, space, empty, limit))
  local retryMs = waitUs and usToMsUp(waitUs)
  local delayMs, at = usToMsUp(delayUs), idle and now or next
  if moved then
    return granted, places, resetMs, retryMs, delayMs, at, slot, rest, left, eldest,
      next, part, vacated, oldest
  end
  if granted == 0 then return 0, places, resetMs, retryMs, delayMs, at end
  return granted, places, resetMs, retryMs, delayMs, at, slot, rest, left, eldest
end

-- With an empty queue the first unit of a call leaves at once; only the others need places.
local function everFits(limit, amount)
  return limit.capacity > 0 and amount <= limit.capacity + 1
end

local function take(slot, rest, left, eldest, limit, amount, now)
  local moved, next, part, vacated, oldest, gap, ahead, idle =
    view(slot, rest, left, eldest, limit, now)
  if amount == 0 then
    return step(limit, now, 0, 0, 0, false, next, part, vacated, oldest, gap, ahead, idle)
  end
  if not everFits(limit, amount) then
    return step(limit, now, 0, 0, nil, moved, next, part, vacated, oldest, gap, ahead, idle)
  end
  local waitUs = waitFor(part, vacated, oldest, gap, idle, limit, amount)
  if waitUs > 0 then
    return step(limit, now, 0, 0, waitUs, moved, next, part, vacated, oldest, gap, ahead, idle)
  end
  local delayUs = delayOf(part, gap, idle, limit)
  return step(limit, now, amount, delayUs, 0, moved, next, part, vacated, oldest, gap, ahead, idle)
end

local function expiresAt(slot, _, _, _, limit)
  return slot + limit.tickUs
end
