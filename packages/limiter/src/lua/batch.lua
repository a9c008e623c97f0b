-- Decides op after op on the counters in hand, so that a later one sees what an earlier one took;
-- then writes all that changed, then replies.

-- The reply: 1, the time, then what each op has to say.
local reply, size = { 1, now }, 2

local function sayState(counter, limit)
  local _, a, b, c, d = read(counter, limit)
  local algorithm, at = limit.algorithm, size + 1
  if a == nil then
    reply[at], size = 0, at
  elseif algorithm.open then
    size = algorithm.say(a, reply, size)
  else
    local numbers = algorithm.numbers
    reply[at], reply[at + 1], reply[at + 2] = numbers, a, b
    if numbers > 2 then reply[at + 3] = c end
    if numbers > 3 then reply[at + 4] = d end
    size = at + numbers
  end
end

-- One outcome: what is left and when it is reset. What is not as it is of most takes follows, and a
-- mark below 0 that says what it is goes before. `expected` is what a take is granted that passes.
local function answer(counter, limit, expected, states, granted, remaining, resetMs, retryMs, delayMs, at)
  if retryMs == 0 and granted == expected and delayMs == 0 and at == now and not states then
    reply[size + 1], reply[size + 2] = remaining, resetMs
    size = size + 2
    return
  end
  local markAt, mark, last = size + 1, 0, size + 3
  reply[markAt], reply[markAt + 1], reply[last] = 0, remaining, resetMs
  if retryMs ~= 0 then
    mark, expected, last = 1, 0, last + 1
    reply[last] = retryMs and retryMs + 1 or 0
    states = states or limit.algorithm.open == nil
  end
  if granted ~= expected then
    mark, last = mark + 2, last + 1
    reply[last] = granted
  end
  if delayMs ~= 0 then
    mark, last = mark + 4, last + 1
    reply[last] = delayMs
  end
  if at ~= now then
    mark, last = mark + 8, last + 1
    reply[last] = at - now
  end
  size = last
  if states then
    mark = mark + 16
    sayState(counter, limit)
  end
  reply[markAt] = -mark
end

local verbs
local last = #request
while place <= last do
  local verb, counter, limit = request[place], request[place + 1], limits[request[place + 2]]
  local after, isSpoiled
  if verbs == nil and (verb ~= 6 or spoiled or limit.charges) then
    verbs = makeVerbs(request, limits, now, read, keep, answer)
  end
  if spoiled then after, isSpoiled = verbs.findSpoiled(place, spoiled) end
  if isSpoiled then
    size = size + 1
    reply[size] = -32
  elseif verb == 6 then
    -- The take of one limit alone, as most are.
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
      answer(counter, limit, amount, false, granted, remaining, resetMs, retryMs, delayMs, at)
    end
    after = place + 4
  elseif verb <= 2 then
    after = verbs.eachGroup(place + 1, verb == 1)
  else
    if verb == 3 then
      local at = request[place + 4]
      verbs.give(counter, limit, request[place + 3], at > 0 and at - 1 or nil)
      after = place + 5
    elseif verb == 4 then
      verbs.chargeAt(counter, limit, request[place + 3], request[place + 4], request[place + 5])
      after = place + 6
    else
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

-- A TTL is passed as text, the same for all of one span: to format a number costs as much as to
-- read a key. To write over a value of the same length costs half as much as to set one.
local call, keys, ttls = redis.call, KEYS, {}
for counter = 1, valueCount + logCount + forgottenCount do
  local kept, value = writes[counter], values[counter]
  if kept ~= nil then
    local key, ttl = keys[counter + keysBefore], ttls[kept]
    if ttl == nil and kept and kept ~= true then
      ttl = (kept * SPAN_US - now) / 1000
      ttl = string.format('%d', ttl + -ttl % 1)
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
