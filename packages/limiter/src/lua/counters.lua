-- Loads the counters: each is read once before any decision, and written once afterwards.

-- `values`: a string, a list (a log or places), or false if there is none. `writes` has an entry for each changed
-- counter: the expiry of its key; or, if its present TTL suffices, false if the value is as long as
-- the one in Redis, else true. `spoiled` lists counters whose key holds another type; nil if there
-- are none.
local values, writes, spoiled, packed = nil, {}, nil, nil

if isPacked then
  packed = makePacked(request, now, SPAN_US)
  values = packed.readFields(valueCount)
elseif valueCount > 0 then
  values = redis.call('MGET', (table.unpack or unpack)(KEYS, 1, valueCount))
else
  values = {}
end
-- Reads short lists whole, and the beginning of long ones.
for counter = valueCount + 1, valueCount + listCount do
  values[counter] = redis.pcall('GETRANGE', KEYS[counter + keysBefore], 0, LIST_READ_SIZE - 1)
end
if isPacked or listCount > 0 then
  for counter = 1, valueCount + listCount do
    if type(values[counter]) == 'table' then
      spoiled = spoiled or {}
      spoiled[counter] = true
    end
  end
end
