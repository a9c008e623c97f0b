-- The format of places in a Redis string: a header of 5 bytes, then a record of 18 for each holder:
-- its number, its places, and when they expire. There are as many records as nodes with calls in
-- flight, so the string is always written whole.
--
-- Loaded places are an immutable table: `records` is a flat list of three numbers each.

local HEADER = '>BI4'
local HEADER_SIZE = 5
local RECORD = '>I7I4I7'
local RECORD_SIZE = 18

-- Opens places from their string in Redis, or from the part that was read; nil if the format is not
-- valid.
local function openPlaces(key, text, isWhole)
  if not isWhole and #text == LIST_READ_SIZE then text = redis.call('GET', key) end
  local size = #text - HEADER_SIZE
  if size < RECORD_SIZE or size % RECORD_SIZE ~= 0 or string.byte(text) ~= 10 then return nil end
  local _, kept = struct.unpack(HEADER, text)
  local records, count = {}, 0
  for from = HEADER_SIZE + 1, #text, RECORD_SIZE do
    records[count + 1], records[count + 2], records[count + 3] = struct.unpack(RECORD, text, from)
    count = count + 3
  end
  return { kept = kept, records = records }
end

local function writePlaces(key, places, ttl)
  local records, parts = places.records, { struct.pack(HEADER, 10, places.kept) }
  for index = 1, #records, 3 do
    parts[#parts + 1] = struct.pack(RECORD, records[index], records[index + 1], records[index + 2])
  end
  if ttl then
    redis.call('SET', key, table.concat(parts), 'PX', ttl)
  else
    redis.call('SET', key, table.concat(parts), 'KEEPTTL')
  end
end

-- Appends places to the reply: their count of numbers, then the numbers. Returns the reply's new
-- size.
local function sayPlaces(places, reply, size)
  local records = places.records
  reply[size + 1] = #records
  for index = 1, #records do reply[size + 1 + index] = records[index] end
  return size + 1 + #records
end
