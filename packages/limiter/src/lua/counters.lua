-- Counters in hand: each is read once before anything is decided, and written once after that.

local LOG_READ_TO = '2067'

-- `values`: a string, a log, or false where there is none. `writes` has an entry for each counter
-- that changed: until when its key is to be kept; or where the TTL that it has will do, false if
-- the value is as long as the one in Redis, else true. `spoiled` names those in whose place lies
-- something of another type; nil: none.
local values, writes, spoiled, packed = nil, {}, nil, nil

if isPacked then
  packed = makePacked(request, now, SPAN_US)
  values = packed.readFields(valueCount)
elseif valueCount > 0 then
  values = redis.call('MGET', (table.unpack or unpack)(KEYS, 1, valueCount))
else
  values = {}
end
-- All of each log that is short, and the beginning of those that are long.
for counter = valueCount + 1, valueCount + logCount do
  values[counter] = redis.pcall('GETRANGE', KEYS[counter + keysBefore], '0', LOG_READ_TO)
end
if isPacked or logCount > 0 then
  for counter = 1, valueCount + logCount do
    if type(values[counter]) == 'table' then
      spoiled = spoiled or {}
      spoiled[counter] = true
    end
  end
end

local function readLog(counter, value, algorithm)
  if type(value) == 'string' then
    value = algorithm.open(KEYS[counter + keysBefore], value, counter <= valueCount)
    if value == nil then return 0 end
    values[counter] = value
  end
  return value.kept, value
end

-- Until when a counter is kept, then its state.
local function read(counter, limit)
  local value, algorithm = values[counter], limit.algorithm
  if not value then return 0 end
  if algorithm.open then return readLog(counter, value, algorithm) end
  return algorithm.readValue(value, limit.format)
end

-- Takes a state for the counter's from now on. Its key is kept for twice the time until it means
-- nothing, and for a span at least; a field of a hash only until it means nothing, as its hash is
-- kept for longer. A log without entries is as good as none.
local function keep(counter, limit, kept, a, b, c, d)
  local algorithm = limit.algorithm
  local expiresAt, isLog = algorithm.expiresAt(a, b, c, d, limit), algorithm.open ~= nil
  if isLog and expiresAt == 0 then
    values[counter], writes[counter] = false, true
    return
  end
  local isNew = expiresAt + EARLY_US > kept * SPAN_US
  if isNew then
    kept = spanOf(isPacked and not isLog and expiresAt or 2 * expiresAt - now, now)
  end
  local value = a
  if isLog then
    a.kept = kept
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
