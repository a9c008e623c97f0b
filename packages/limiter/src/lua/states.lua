-- Reads and writes the loaded counters as states of their algorithms, and appends their outcomes to
-- the reply. A batch creates these functions when the first op needs them: see batch.lua.

for _, limit in ipairs(limits) do
  local format = limit.format
  if algorithms[format] == nil then algorithms[format] = makeAlgorithm(format) end
  limit.algorithm = algorithms[format]
end

-- A list names the function that writes it, which also tells of which algorithm it is.
local function readList(counter, value, algorithm)
  if type(value) == 'string' then
    value = algorithm.open(KEYS[counter + keysBefore], value, counter <= valueCount)
    if value == nil then return 0 end
    value.write = algorithm.write
    values[counter] = value
  elseif value.write ~= algorithm.write then
    return 0
  end
  return value.kept, value
end

-- Returns the expiry of a counter, then its state.
local function read(counter, limit)
  local value, algorithm = values[counter], limit.algorithm
  if not value then return 0 end
  if algorithm.open then return readList(counter, value, algorithm) end
  return algorithm.readValue(value, limit.format)
end

-- Sets the state of a counter. Its key is kept for twice the time until the state expires, and for
-- at least one span, see span.lua; a field of a hash only until the state expires, because its hash
-- is kept longer. A list without entries is deleted.
local function keep(counter, limit, kept, a, b, c, d)
  local algorithm = limit.algorithm
  local expiresAt, isList = algorithm.expiresAt(a, b, c, d, limit), algorithm.open ~= nil
  if isList and expiresAt == 0 then
    values[counter], writes[counter] = false, true
    return
  end
  local needed = isPacked and not isList and expiresAt or 2 * expiresAt - now
  local isNew = needed + EARLY_US > kept * SPAN_US
  if isNew then kept = spanOf(needed, now) end
  local value = a
  if isList then
    a.kept, a.write = kept, algorithm.write
  else
    value = algorithm.packValue(limit.format, kept, a, b, c, d)
  end
  if isNew then
    writes[counter] = kept
  elseif not writes[counter] then
    writes[counter] = #value ~= #values[counter]
  end
  values[counter] = value
end

-- The present size of the reply.
local size

-- Appends an outcome; a refusal includes the state, except that of a list.
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
