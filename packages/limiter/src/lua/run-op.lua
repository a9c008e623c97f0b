-- Runs the operations of memory-store.ts on the loaded counters, with the same outcomes.

local TAKE, PEEK, GIVE, CHARGE, RESET, TAKE_ONE, TAKE_PAIR, SPOILED = 1, 2, 3, 4, 5, 6, 7, -32
local ITEM = 4
local STEP = 16
-- The steps of a group's takes, each in 16 slots: the results of `take`, then `kept`.
local steps = {}

-- The functions of metered.lua, once a take needs them. `last`, the last number of a take, is below
-- 0 if it gates or overdraws; an amount below 0 gives back.
local OVERDRAW = -2
local metered

local function look(counter, limit, amount, last)
  local _, a, b, c, d = read(counter, limit)
  if amount < 0 or last < 0 then
    metered = metered or makeMetered(now, steps, read, keep, say)
    return metered.peek(limit, amount, last, a, b, c, d)
  end
  return limit.algorithm.peek(a, b, c, d, limit, amount, now)
end

local function stepOf(limit, amount, last, a, b, c, d)
  if amount < 0 or last < 0 then
    metered = metered or makeMetered(now, steps, read, keep, say)
    return metered.take(limit, amount, last, a, b, c, d)
  end
  -- The last number is one more than the least amount, or whose places are taken.
  local atLeast = last > 0 and last - 1 or amount
  return limit.algorithm.take(a, b, c, d, limit, amount, now, atLeast, last)
end

local function chargeAt(counter, limit, amount, at, debt)
  local kept, a, b, c, d = read(counter, limit)
  a, b, c, d = limit.algorithm.charge(a, b, c, d, limit, amount, now, at, debt)
  if a ~= nil then keep(counter, limit, kept, a, b, c, d) end
end

-- Charges only a limit with `onRefusal: charge`, and stores a rebased state (a, b, c, d).
local function refuse(counter, limit, amount, last, states, kept, a, b, c, d,
    granted, remaining, resetMs, retryMs, delayMs, at)
  if a ~= nil then keep(counter, limit, kept, a, b, c, d) end
  local fits = retryMs == 0
  if limit.charges and amount > 0 then
    chargeAt(counter, limit, amount, now, 0)
    if fits then
      granted, remaining, resetMs, retryMs, delayMs, at = look(counter, limit, 0, 0)
      granted = amount
    else
      granted, remaining, resetMs, retryMs, delayMs, at = look(counter, limit, amount, last)
    end
  elseif fits then
    granted, remaining, resetMs, retryMs, delayMs, at = look(counter, limit, amount, last)
  end
  say(counter, limit, amount, states, granted, remaining, resetMs, retryMs, delayMs, at)
end

-- Returns for how long the limit of the block at this item refused. Nothing if the take between the
-- two, which reads the marks of the limit, found that calls hold units of it.
local function waitBefore(item, from)
  local before = item - 1
  if request[from + 3] > 0 then
    local marks = limits[request[from - ITEM + 1]]
    if before < 1 or steps[STEP * before + 2] < marks.capacity then return nil end
    before = before - 1
  end
  return before >= 0 and steps[STEP * before + 4]
end

-- Charges a block if its limit refused, for `retryBefore` milliseconds, and it did not.
local function refuseBlock(counter, limit, amount, states, retryBefore, retryMs)
  if retryMs ~= 0 or not retryBefore or retryBefore == 0 then return false end
  chargeAt(counter, limit, amount, now, 0)
  say(counter, limit, amount, states, look(counter, limit, amount, 0))
  return true
end

-- Charges a group whole or not at all; returns whether it was charged.
local function takeGroup(place, count, states)
  local passes = true
  for item = 0, count - 1 do
    local from, to = place + ITEM * item, STEP * item
    local limit, amount, last = limits[request[from + 1]], request[from + 2], request[from + 3]
    local kept, a, b, c, d = read(request[from], limit)
    steps[to + 15] = kept
    steps[to + 1], steps[to + 2], steps[to + 3], steps[to + 4], steps[to + 5], steps[to + 6],
      steps[to + 7], steps[to + 8], steps[to + 9], steps[to + 10],
      steps[to + 11], steps[to + 12], steps[to + 13], steps[to + 14] =
      stepOf(limit, amount, last, a, b, c, d)
    if steps[to + 4] ~= 0 then passes = false end
  end
  for item = 0, count - 1 do
    local from, to = place + ITEM * item, STEP * item
    local counter, limit, amount = request[from], limits[request[from + 1]], request[from + 2]
    local last = request[from + 3]
    local granted, remaining, resetMs, retryMs, delayMs, at = steps[to + 1], steps[to + 2],
      steps[to + 3], steps[to + 4], steps[to + 5], steps[to + 6]
    if passes then
      if steps[to + 7] ~= nil then
        keep(counter, limit, steps[to + 15],
          steps[to + 7], steps[to + 8], steps[to + 9], steps[to + 10])
      end
      say(counter, limit, amount, states, granted, remaining, resetMs, retryMs, delayMs, at)
    elseif last == OVERDRAW then
      metered.refuse(counter, limit, amount, states, to)
    elseif limit.format ~= 8
      or not refuseBlock(counter, limit, amount, states, waitBefore(item, from), retryMs) then
      refuse(counter, limit, amount, last, states, steps[to + 15], steps[to + 11], steps[to + 12],
        steps[to + 13], steps[to + 14], granted, remaining, resetMs, retryMs, delayMs, at)
    end
  end
  return passes
end

-- Runs each group; the others run only if the first passes, and a peek changes nothing. Returns the
-- position after the op.
local function eachGroup(place, isTake)
  local states, groups = request[place] == 1, request[place + 1]
  local from, open = place + 2, isTake
  for group = 1, groups do
    local count = request[from]
    if open then
      local passes = takeGroup(from + 1, count, states)
      if group == 1 then open = passes end
    else
      for item = from + 1, from + ITEM * count, ITEM do
        local counter, limit, amount = request[item], limits[request[item + 1]], request[item + 2]
        say(counter, limit, isTake and amount or 0, states,
          look(counter, limit, amount, request[item + 3]))
      end
    end
    from = from + 1 + ITEM * count
  end
  return from
end

-- Runs two groups of one take each.
local function takePair(place)
  if takeGroup(place, 1, false) then
    takeGroup(place + ITEM, 1, false)
    return
  end
  local counter, limit = request[place + ITEM], limits[request[place + ITEM + 1]]
  local amount, last = request[place + ITEM + 2], request[place + ITEM + 3]
  say(counter, limit, amount, false, look(counter, limit, amount, last))
end

local function give(counter, limit, amount, at, undone)
  local kept, a, b, c, d = read(counter, limit)
  a, b, c, d = limit.algorithm.give(a, b, c, d, limit, amount, now, at, undone)
  if a ~= nil then keep(counter, limit, kept, a, b, c, d) end
end

-- Returns the position after an op, and whether the key of a counter holds another type.
local function findSpoiled(place, spoiled)
  local verb, counter = request[place], request[place + 1]
  if verb == TAKE_ONE then return place + 4, spoiled[counter] end
  if verb == TAKE_PAIR then return place + 9, spoiled[counter] or spoiled[request[place + 5]] end
  if verb == RESET then return place + 3, spoiled[counter] or spoiled[request[place + 2]] end
  if verb == CHARGE then return place + 6, spoiled[counter] end
  if verb == GIVE then return place + 6, spoiled[counter] end
  local from, found = place + 3, false
  for _ = 1, request[place + 2] do
    local to = from + ITEM * request[from]
    for item = from + 1, to, ITEM do found = found or spoiled[request[item]] end
    from = to + 1
  end
  return from, found
end

-- Runs the take of a single limit.
local function takeAlone(counter, limit, amount)
  local kept, a, b, c, d = read(counter, limit)
  local granted, remaining, resetMs, retryMs, delayMs, at, nextA, nextB, nextC, nextD, movedA,
    movedB, movedC, movedD = limit.algorithm.take(a, b, c, d, limit, amount, now, amount)
  if retryMs ~= 0 and limit.charges then
    refuse(counter, limit, amount, 0, false, kept, movedA, movedB, movedC, movedD,
      granted, remaining, resetMs, retryMs, delayMs, at)
    return
  end
  if retryMs ~= 0 then nextA, nextB, nextC, nextD = movedA, movedB, movedC, movedD end
  if nextA ~= nil then keep(counter, limit, kept, nextA, nextB, nextC, nextD) end
  say(counter, limit, amount, false, granted, remaining, resetMs, retryMs, delayMs, at)
end

-- Deletes a counter; if logs have separate keys, both possible keys.
local function reset(counter, log)
  values[counter], writes[counter] = false, true
  if log > 0 then values[log], writes[log] = false, true end
end

-- Runs the op at a position. Returns the position after it and the new size of the reply.
return function(place, sizeBefore)
  size = sizeBefore
  local verb, counter, limit = request[place], request[place + 1], limits[request[place + 2]]
  if spoiled then
    local after, isSpoiled = findSpoiled(place, spoiled)
    if isSpoiled then
      reply[size + 1] = SPOILED
      return after, size + 1
    end
  end
  if verb == TAKE_ONE then
    takeAlone(counter, limit, request[place + 3])
    return place + 4, size
  end
  if verb == TAKE_PAIR then
    takePair(place + 1)
    return place + 9, size
  end
  if verb == TAKE or verb == PEEK then
    local after = eachGroup(place + 1, verb == TAKE)
    return after, size
  end
  reply[size + 1] = 0
  if verb == GIVE then
    local at = request[place + 4]
    local undone = request[place + 5] == 1
    give(counter, limit, request[place + 3], at > 0 and at - 1 or nil, undone)
    return place + 6, size + 1
  end
  if verb == CHARGE then
    chargeAt(counter, limit, request[place + 3], request[place + 4], request[place + 5])
    return place + 6, size + 1
  end
  reset(counter, request[place + 2])
  return place + 3, size + 1
end
