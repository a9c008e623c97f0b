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
