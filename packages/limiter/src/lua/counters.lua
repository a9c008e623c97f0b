-- Counters in hand: each is read once before anything is decided, and written once after that.
--
-- A value is the limit's format, until when the key is kept, and the numbers of the state. The time
-- is in spans of about four seconds, rounded up: a key that is kept for long enough keeps its TTL,
-- which costs half as much as to set one.

local SPAN_US = 4194304
local LOG_READ_TO = '2067'

-- `values`: a string, a log, or false where there is none. `writes` has an entry for each counter
-- that changed: until when its key is to be kept; or where the TTL that it has will do, false if the
-- value is as long as the one in Redis, else true. `spoiled` names those in whose place lies
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
-- As much of each log as it has if it is short.
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

-- Until when a counter is kept, then its state. Of another algorithm or damaged: 0 and nothing.
local function read(counter, limit)
  local value = values[counter]
  if not value then return 0 end
  local algorithm = limit.algorithm
  local size, layout = #value, algorithm.narrow
  if size ~= algorithm.narrowSize then
    if layout == nil then return readLog(counter, value, algorithm) end
    if size ~= algorithm.wideSize then return 0 end
    layout = algorithm.wide
  end
  local format, kept, a, b, c, d = struct.unpack(layout, value)
  if format ~= limit.format then return 0 end
  return kept, a, b, c, d
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
  local isNew = kept == 0 or expiresAt > kept * SPAN_US
  if isNew then
    local keptUntil = isPacked and not isLog and expiresAt or 2 * expiresAt - now
    if keptUntil < now + SPAN_US then keptUntil = now + SPAN_US end
    kept = keptUntil / SPAN_US
    kept = kept + -kept % 1
  end
  local value = a
  if isLog then
    a.kept = kept
  else
    local layout = algorithm.narrow
    if b >= 4294967296 or c and (c >= algorithm.narrowBelow or d and d >= 65536) then
      layout = algorithm.wide
    end
    value = struct.pack(layout, limit.format, kept, a, b, c, d)
  end
  if isNew then
    writes[counter] = kept
  elseif not writes[counter] then
    writes[counter] = #value ~= #values[counter]
  end
  values[counter] = value
end
