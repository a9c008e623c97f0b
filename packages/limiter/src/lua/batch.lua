-- Decides the ops in order on the loaded counters, so that a later one sees what an earlier one
-- took; then writes all changes, then replies.

-- The reply: 1, the time, then the results of each op.
local reply, size = { 1, now }, 2

-- Sets the state that `admit` returned, as `keep` does, and appends the outcome to the reply.
local function keepAdmitted(counter, limit, kept, left, resetMs, at, expires, a, b, c)
  local needed = isPacked and expires or 2 * expires - now
  if needed + EARLY_US > kept * SPAN_US then
    kept = spanOf(needed, now)
    writes[counter] = kept
  elseif not writes[counter] then
    writes[counter] = false
  end
  values[counter] = struct.pack(c and '>BI4I7I4I4' or '>BI4I7I4', limit.format, kept, a, b, c)
  if at == now then
    reply[size + 1], reply[size + 2] = left, resetMs
    size = size + 2
  else
    reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = -8, left, resetMs, at - now
    size = size + 4
  end
end

-- The results of `admit` for the takes of a call, each in 9 slots, the last of which is the place of
-- the take. `admitCall` keeps them if all groups pass, and returns the place after the call; nothing
-- if one does not, or if two groups have a counter in common.
local found = {}
local function admitCall(place)
  local groups, from, items = request[place], place + 1, 0
  for _ = 1, groups do
    local count = request[from]
    for op = from + 1, from + 4 * count, 4 do
      local to, counter = 9 * items, request[op]
      found[to + 1], found[to + 2], found[to + 3], found[to + 4], found[to + 5], found[to + 6],
        found[to + 7], found[to + 8] =
        admit(values[counter], limits[request[op + 1]], request[op + 2], request[op + 3])
      if not found[to + 1] then return nil end
      if groups > 1 then
        for before = 9, to, 9 do
          if request[found[before]] == counter then return nil end
        end
      end
      found[to + 9] = op
      items = items + 1
    end
    from = from + 1 + 4 * count
  end
  for item = 0, items - 1 do
    local to = 9 * item
    local op = found[to + 9]
    keepAdmitted(request[op], limits[request[op + 1]], found[to + 1], found[to + 2], found[to + 3],
      found[to + 4], found[to + 5], found[to + 6], found[to + 7], found[to + 8])
  end
  return from
end

-- The same for a call of two groups of one take each, such as a settle: its mark and a difference.
-- A counter without a state is kept like the one before it with the same limit and amount: nearly
-- all marks of a batch are such.
local function admitPair(place)
  local counter, limit, amount = request[place], limits[request[place + 1]], request[place + 2]
  local other, value, isNew = request[place + 4], values[counter], false
  local kept, left, resetMs, at, expires, a, b, c
  if value or limit.newAmount ~= amount or request[place + 3] ~= 0 then
    kept, left, resetMs, at, expires, a, b, c = admit(value, limit, amount, request[place + 3])
    if not kept then return nil end
    isNew = not value and at == now
  end
  local otherLimit = limits[request[place + 5]]
  local otherKept, otherLeft, otherResetMs, otherAt, otherExpires, otherA, otherB, otherC =
    admit(values[other], otherLimit, request[place + 6], request[place + 7])
  if not otherKept or other == counter then return nil end
  if kept then
    keepAdmitted(counter, limit, kept, left, resetMs, at, expires, a, b, c)
    if isNew and request[place + 3] == 0 then
      limit.newAmount, limit.newValue, limit.newKept = amount, values[counter], writes[counter]
      limit.newLeft, limit.newResetMs = left, resetMs
    end
  else
    values[counter], writes[counter] = limit.newValue, limit.newKept
    reply[size + 1], reply[size + 2] = limit.newLeft, limit.newResetMs
    size = size + 2
  end
  keepAdmitted(other, otherLimit, otherKept, otherLeft, otherResetMs, otherAt, otherExpires,
    otherA, otherB, otherC)
  return place + 8
end

local TAKE, TAKE_ONE, TAKE_PAIR = 1, 6, 7
local last, decide = #request, nil
while place <= last do
  local verb, isAdmitted = request[place], false
  if spoiled then
    isAdmitted = false
  elseif verb == TAKE_ONE then
    local counter, limit = request[place + 1], limits[request[place + 2]]
    local kept, left, resetMs, at, expires, a, b, c = admit(values[counter], limit, request[place + 3], 0)
    if kept then
      keepAdmitted(counter, limit, kept, left, resetMs, at, expires, a, b, c)
      isAdmitted, place = true, place + 4
    end
  elseif verb == TAKE_PAIR then
    local after = admitPair(place + 1)
    if after then isAdmitted, place = true, after end
  elseif verb == TAKE and request[place + 1] == 0 then
    -- Without states.
    local after = admitCall(place + 2)
    if after then isAdmitted, place = true, after end
  end
  if not isAdmitted then
    decide = decide or makeVerbs(makeAlgorithm, algorithms, request, limits, now, reply, values,
      writes, spoiled, isPacked, valueCount, keysBefore)
    place, size = decide(place, size)
  end
end

-- Overwriting a value of the same length costs half as much as setting one. Many keys share an
-- expiry span.
local call, keys, ttls = redis.call, KEYS, {}
for counter = 1, valueCount + listCount + forgottenCount do
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
    elseif type(value) == 'table' then
      value.write(key, value, ttl)
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
