-- Takes that gate, overdraw or give back, twin of metered.ts. A step is what `take` of an algorithm
-- returns. A batch creates these functions when the first such take needs them: see run-op.lua.

local GATE = -1

-- Returns a step that takes nothing: what is left now.
local function present(limit, a, b, c, d)
  local _, remaining, resetMs, _, _, at = limit.algorithm.peek(a, b, c, d, limit, 0, now)
  return 0, remaining, resetMs, 0, 0, at
end

-- Refuses unless an amount of 1 would pass, in a bucket without waiting.
local function gate(limit, a, b, c, d)
  local maxWaitUs = limit.maxWaitUs
  if limit.format <= 2 then limit.maxWaitUs = 0 end
  local _, remaining, resetMs, retryMs, _, at, _, _, _, _, movedA, movedB, movedC, movedD =
    limit.algorithm.take(a, b, c, d, limit, 1, now, 1)
  limit.maxWaitUs = maxWaitUs
  if retryMs == 0 then return present(limit, a, b, c, d) end
  return 0, remaining, resetMs, retryMs, 0, at, nil, nil, nil, nil, movedA, movedB, movedC, movedD
end

-- Charges as many whole units as fit into the limit and its debt; lends none to calls that wait.
local function owe(limit, amount, a, b, c, d)
  local algorithm, debt = limit.algorithm, limit.debt
  local max, capacity, lent, maxWaitUs = limit.max, limit.capacity, limit.lent, limit.maxWaitUs
  limit.max, limit.capacity, limit.lent = max + debt, capacity + debt, lent - debt
  limit.maxWaitUs = 0
  local granted, _, _, _, _, at, nextA, nextB, nextC, nextD, movedA, movedB, movedC, movedD =
    algorithm.take(a, b, c, d, limit, amount, now, 1)
  limit.max, limit.capacity, limit.lent = max, capacity, lent
  if granted == 0 then
    nextA, nextB, nextC, nextD = nil, nil, nil, nil
  else
    a, b, c, d = nextA, nextB, nextC, nextD
  end
  local fitting = amount < capacity and amount or capacity
  local _, remaining, resetMs, retryMs = algorithm.peek(a, b, c, d, limit, fitting, now)
  limit.maxWaitUs = maxWaitUs
  return granted, remaining, resetMs, retryMs, 0, at, nextA, nextB, nextC, nextD,
    movedA, movedB, movedC, movedD
end

-- Takes the amount, or charges what can be owed. A leaky bucket cannot owe.
local function overdraw(limit, amount, a, b, c, d)
  local granted, remaining, resetMs, retryMs, delayMs, at, nextA, nextB, nextC, nextD,
    movedA, movedB, movedC, movedD = limit.algorithm.take(a, b, c, d, limit, amount, now, amount)
  if retryMs ~= 0 and limit.capacity > 0 and limit.format ~= 3 then
    return owe(limit, amount, a, b, c, d)
  end
  return granted, remaining, resetMs, retryMs, delayMs, at, nextA, nextB, nextC, nextD,
    movedA, movedB, movedC, movedD
end

local function giveBack(limit, amount, at, a, b, c, d)
  local nextA, nextB, nextC, nextD = limit.algorithm.give(a, b, c, d, limit, -amount, now, at)
  if nextA == nil then return present(limit, a, b, c, d) end
  local _, remaining, resetMs, _, _, seenAt = present(limit, nextA, nextB, nextC, nextD)
  return amount, remaining, resetMs, 0, 0, seenAt, nextA, nextB, nextC, nextD
end

local function take(limit, amount, last, a, b, c, d)
  if amount < 0 then return giveBack(limit, amount, last > 0 and last - 1 or nil, a, b, c, d) end
  if last == GATE then return gate(limit, a, b, c, d) end
  return overdraw(limit, amount, a, b, c, d)
end

-- Returns the outcome that `take` would have, with what is left now.
local function peek(limit, amount, last, a, b, c, d)
  if amount < 0 then return present(limit, a, b, c, d) end
  if last == GATE then return gate(limit, a, b, c, d) end
  local granted, remaining, resetMs, retryMs, delayMs, at =
    limit.algorithm.peek(a, b, c, d, limit, amount, now)
  if retryMs ~= 0 then
    local _
    _, _, _, retryMs = overdraw(limit, amount, a, b, c, d)
  end
  return granted, remaining, resetMs, retryMs, delayMs, at
end

-- Charges a take that overdraws in a refused group; its step is in 16 slots after `to`. A call that
-- is refused does not wait, so it is lent nothing for that.
local function refuse(counter, limit, amount, states, to)
  if steps[to + 11] ~= nil then
    keep(counter, limit, steps[to + 15],
      steps[to + 11], steps[to + 12], steps[to + 13], steps[to + 14])
  end
  local kept, a, b, c, d = read(counter, limit)
  if limit.lent > 0 and steps[to + 5] ~= 0 then
    steps[to + 1], steps[to + 2], steps[to + 3], steps[to + 4], steps[to + 5], steps[to + 6],
      steps[to + 7], steps[to + 8], steps[to + 9], steps[to + 10] = owe(limit, amount, a, b, c, d)
    steps[to + 4] = 0
  end
  if steps[to + 1] > 0 then
    keep(counter, limit, kept, steps[to + 7], steps[to + 8], steps[to + 9], steps[to + 10])
  end
  say(counter, limit, amount, states, steps[to + 1], steps[to + 2], steps[to + 3], steps[to + 4],
    steps[to + 5], steps[to + 6])
end

return { take = take, peek = peek, refuse = refuse }
