-- Block, twin of block.ts. A state is (until, times): the end of the last block, and how many there
-- were in a row. In the limit, p is the length of the first block, q the factor, windowUs the
-- longest, and scaledWindow how long after its end a block is forgotten.

-- Returns the length of the nth block in a row.
local function lengthUs(times, limit)
  local length, factor, longest, n = limit.p, limit.q, limit.windowUs, 1
  while factor > 1 and n < times and length < longest do
    length, n = length * factor, n + 1
  end
  return least(length, longest)
end

-- Returns the end of the block, how many there were, whether it lasts, and whether another clock
-- wrote it.
local function view(ends, counted, limit, now)
  if ends == nil then return now, 0, false, false end
  if isFromAnotherClock(ends, limit, now) then
    return now + lengthUs(counted, limit), counted, true, true
  end
  if now < ends then return ends, counted, true, false end
  if now >= ends + limit.scaledWindow then counted = 0 end
  return ends, counted, false, false
end

local function take(ends, counted, _, _, limit, amount, now)
  local untilUs, times, isBlocked, moved = view(ends, counted, limit, now)
  if not isBlocked then return 0, limit.capacity, 0, 0, 0, now end
  local leftMs = usToMsUp(untilUs - now)
  if amount == 0 then return 0, 0, leftMs, 0, 0, now end
  if moved then return 0, 0, leftMs, leftMs, 0, now, untilUs, times, nil, nil, untilUs, times end
  return 0, 0, leftMs, leftMs, 0, now
end

local function expiresAt(ends, _, _, _, limit)
  return ends + limit.scaledWindow
end
