-- Decides op after op on the counters in hand, so that a later one sees what an earlier one took;
-- then writes all that changed, then replies.

-- The reply: 1, the time, then what each op has to say. A refusal carries the state, but not of a
-- log.
local reply, size = { 1, now }, 2

local function say(counter, limit, expected, states,
    granted, remaining, resetMs, retryMs, delayMs, at)
  if retryMs == 0 and granted == expected and delayMs == 0 and at == now and not states then
    reply[size + 1], reply[size + 2] = remaining, resetMs
    size = size + 2
    return
  end
  local algorithm = limit.algorithm
  states = states or retryMs ~= 0 and algorithm.open == nil
  size = answer(reply, size, now, expected, states,
    granted, remaining, resetMs, retryMs, delayMs, at)
  if not states then return end
  local _, a, b, c, d = read(counter, limit)
  if a ~= nil and algorithm.open then
    size = algorithm.say(a, reply, size)
  else
    size = sayState(reply, size, algorithm.numbers, a, b, c, d)
  end
end

local TAKE, PEEK, GIVE, CHARGE, TAKE_ONE, SPOILED = 1, 2, 3, 4, 6, -32
local verbs, last = nil, #request
while place <= last do
  local verb, counter, limit = request[place], request[place + 1], limits[request[place + 2]]
  local after, isSpoiled
  if verbs == nil and (verb ~= TAKE_ONE or spoiled or limit.charges) then
    verbs = makeVerbs(request, limits, now, read, keep, say)
  end
  if spoiled then after, isSpoiled = verbs.findSpoiled(place, spoiled) end
  if isSpoiled then
    size = size + 1
    reply[size] = SPOILED
  elseif verb == TAKE_ONE then
    local amount = request[place + 3]
    local kept, a, b, c, d = read(counter, limit)
    local granted, remaining, resetMs, retryMs, delayMs, at, nextA, nextB, nextC, nextD, movedA,
      movedB, movedC, movedD = limit.algorithm.take(a, b, c, d, limit, amount, now, amount)
    if retryMs ~= 0 and limit.charges then
      verbs.refuse(counter, limit, amount, false, kept, movedA, movedB, movedC, movedD,
        granted, remaining, resetMs, retryMs, delayMs, at)
    else
      if retryMs ~= 0 then nextA, nextB, nextC, nextD = movedA, movedB, movedC, movedD end
      if nextA ~= nil then keep(counter, limit, kept, nextA, nextB, nextC, nextD) end
      say(counter, limit, amount, false, granted, remaining, resetMs, retryMs, delayMs, at)
    end
    after = place + 4
  elseif verb == TAKE or verb == PEEK then
    after = verbs.eachGroup(place + 1, verb == TAKE)
  else
    if verb == GIVE then
      local at = request[place + 4]
      local undone = request[place + 5] == 1
      verbs.give(counter, limit, request[place + 3], at > 0 and at - 1 or nil, undone)
      after = place + 6
    elseif verb == CHARGE then
      verbs.chargeAt(counter, limit, request[place + 3], request[place + 4], request[place + 5])
      after = place + 6
    else
      -- A reset; where logs lie apart, of both that the counter may be.
      values[counter], writes[counter] = false, true
      local log = request[place + 2]
      if log > 0 then values[log], writes[log] = false, true end
      after = place + 3
    end
    size = size + 1
    reply[size] = 0
  end
  place = after
end

-- To write over a value of the same length costs half as much as to set one. Many keys are kept for
-- the same span.
local call, keys, ttls = redis.call, KEYS, {}
for counter = 1, valueCount + logCount + forgottenCount do
  local kept, value = writes[counter], values[counter]
  if kept ~= nil then
    local key, ttl = keys[counter + keysBefore], ttls[kept]
    if ttl == nil and kept and kept ~= true then
      ttl = ttlOf(kept, now)
      ttls[kept] = ttl
    end
    if isPacked and counter <= valueCount then
      packed.writeField(counter, value, ttl)
    elseif not value then
      call('DEL', key)
    elseif algorithms[6] and type(value) == 'table' then
      algorithms[6].write(key, value, ttl)
    elseif ttl then
      call('SET', key, value, 'PX', ttl)
    elseif kept then
      call('SET', key, value, 'KEEPTTL')
    else
      call('SETRANGE', key, '0', value)
    end
  end
end
return cmsgpack.pack(reply)
