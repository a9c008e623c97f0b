-- The format of a log in a Redis string: a header of 20 bytes, then records of 8, oldest first, one
-- per instant. A record is the time since the header's `base` and the running total of units, which
-- may wrap: a log holds at most 20,000 units, so the difference of two totals is always exact. A
-- count is thus one subtraction, and a wait a search.
--
-- The header holds the number of records, the first one that counts, the total before it, and the
-- capacity. A log of up to 256 records is always written whole and has no spare capacity; a longer
-- one has an eighth, so that only changes are written. Expired records are dropped when the log is
-- written whole, at the latest when they are an eighth of it.
--
-- A loaded log is an immutable table: the stored records (`source`), with those from `tailFrom` on
-- replaced by `tail`.

local HEADER = '>BI4I7I2I2I2I2'
local HEADER_SIZE = 20
local RECORD = '>I6I2'
local SINCE_BASE_MAX = 281474976710655
local TOTALS = 65536
local WHOLE_MAX = 256
local ROOM_MAX = 32767
local READ_AROUND = 64
local SHOWN_MAX = 64

local function readRange(source, from, to)
  local start = HEADER_SIZE + 8 * (from - 1)
  return redis.call('GETRANGE', source.key, start, start + 8 * (to - from + 1) - 1)
end

-- Returns the time and running total of a record; reads its neighbourhood if it is not loaded.
local function recordAt(log, index)
  local from, text = log.tailFrom, log.tail
  if index < from then
    local source = log.source
    if index < source.from or index > source.to then
      source.from = most(1, index - READ_AROUND / 4)
      source.to = least(source.room, source.from + READ_AROUND - 1)
      source.text = readRange(source, source.from, source.to)
    end
    from, text = source.from, source.text
  end
  local since, total = struct.unpack(RECORD, text, 8 * (index - from) + 1)
  return log.base + since, total
end

-- Returns the running total before a record.
local function totalBefore(log, index)
  if index == log.first then return log.before end
  local _, total = recordAt(log, index - 1)
  return total
end

-- Returns the first record from `from` on for which `isPassed` is false, given that it then stays
-- false. Searches nearby first, where it nearly always is.
local function search(log, from, isPassed)
  local low, high, step = from - 1, from, 1
  while high <= log.count and isPassed(recordAt(log, high)) do
    low, high, step = high, high + step, step * 2
  end
  if high > log.count then high = log.count + 1 end
  while high - low > 1 do
    local middle = floorDiv(low + high, 2)
    if isPassed(recordAt(log, middle)) then low = middle else high = middle end
  end
  return high
end

-- Opens a log from its string in Redis, or from the part that was read; nil if the format is not
-- valid.
local function openLog(key, text, isWhole)
  if #text < HEADER_SIZE + 8 or string.byte(text) ~= 6 then return nil end
  local _, kept, base, before, count, first, room = struct.unpack(HEADER, text)
  if first < 1 or count < first or room < count or room > ROOM_MAX then return nil end
  local read, size = #text, HEADER_SIZE + 8 * room
  if read ~= size then
    if isWhole or room <= WHOLE_MAX or redis.call('STRLEN', key) ~= size then return nil end
  end
  local records = string.sub(text, HEADER_SIZE + 1)
  local source = { key = key, room = room, from = 1, to = floorDiv(#records, 8), text = records }
  -- Reads only the newest records, so that the oldest stay loaded.
  local isRead = count <= source.to
  local newest = isRead and records or readRange(source, count, count)
  local since, total = struct.unpack(RECORD, newest, isRead and 8 * count - 7 or 1)
  return {
    source = source, kept = kept, base = base, before = before, count = count, first = first,
    tailFrom = count + 1, tail = '', newestAt = base + since, newestTotal = total,
  }
end

-- Returns a log without records, whose first one will be at `base`.
local function newLog(base)
  return {
    source = { room = 0 }, kept = 0, base = base, before = 0, count = 0, first = 1, tailFrom = 1,
    tail = '',
  }
end

-- Replaces the records from `from` on; the last one is number `count`.
local function replaceFrom(log, from, records, count)
  local tail, tailFrom = records, from
  if from >= log.tailFrom then
    tail, tailFrom = string.sub(log.tail, 1, 8 * (from - log.tailFrom)) .. records, log.tailFrom
  end
  local changed = {
    source = log.source, kept = log.kept, base = log.base, before = log.before, count = count,
    first = log.first, tailFrom = tailFrom, tail = tail,
  }
  if count >= log.first then changed.newestAt, changed.newestTotal = recordAt(changed, count) end
  return changed
end

-- Drops the records before `first`.
local function startFrom(log, first, before)
  return {
    source = log.source, kept = log.kept, base = log.base, before = before, count = log.count,
    first = first, tailFrom = log.tailFrom, tail = log.tail,
    newestAt = log.newestAt, newestTotal = log.newestTotal,
  }
end

-- Returns the records from `from` on, in bytes, with `units` added to their totals.
local function shifted(log, from, units)
  local records = {}
  for index = from, log.count do
    local at, total = recordAt(log, index)
    records[index - from + 1] = struct.pack(RECORD, at - log.base, (total + units) % TOTALS)
  end
  return table.concat(records)
end

-- Rewrites the times of a log relative to another base.
local function rebase(log, base)
  local records = {}
  for index = log.first, log.count do
    local at, total = recordAt(log, index)
    records[index - log.first + 1] = struct.pack(RECORD, at - base, total)
  end
  return {
    source = { room = 0 }, kept = log.kept, base = base, before = log.before,
    count = log.count - log.first + 1, first = 1, tailFrom = 1, tail = table.concat(records),
    newestAt = log.newestAt, newestTotal = log.newestTotal,
  }
end

local function headerOf(log, first, count, room)
  return struct.pack(HEADER, 6, log.kept, log.base, log.before, count, first, room)
end

-- Writes only the changes if there is capacity, else the whole log without expired records.
local function writeLog(key, log, ttl)
  local source, first, count, tailFrom = log.source, log.first, log.count, log.tailFrom
  if count - first + 1 > WHOLE_MAX and count <= source.room and 8 * (first - 1) <= count then
    if tailFrom <= count then
      local start = HEADER_SIZE + 8 * (tailFrom - 1)
      redis.call('SETRANGE', key, start, log.tail)
    end
    redis.call('SETRANGE', key, 0, headerOf(log, first, count, source.room))
    if ttl then redis.call('PEXPIRE', key, ttl) end
    return
  end
  local records = log.tail
  if tailFrom <= first then
    records = string.sub(records, 8 * (first - tailFrom) + 1)
  elseif source.from <= first and source.to >= tailFrom - 1 then
    local from = 8 * (first - source.from) + 1
    records = string.sub(source.text, from, from + 8 * (tailFrom - first) - 1) .. records
  else
    records = readRange(source, first, tailFrom - 1) .. records
  end
  count = count - first + 1
  local spare = count > WHOLE_MAX and floorDiv(count, 8) or 0
  local value = headerOf(log, 1, count, count + spare) .. records .. string.rep('\0', 8 * spare)
  if ttl then
    redis.call('SET', key, value, 'PX', ttl)
  else
    redis.call('SET', key, value, 'KEEPTTL')
  end
end

-- Appends a log to the reply: its count of numbers, then the time and the units of each record; the
-- oldest records of a long log are merged into one, as in shortenLog. Returns the reply's new size.
local function sayLog(log, reply, size)
  local before, from, count = log.before, log.first, log.count - log.first + 1
  size = size + 1
  reply[size] = 2 * least(count, SHOWN_MAX)
  if count > SHOWN_MAX then
    from = log.count - SHOWN_MAX + 1
    local oldest, _, total = recordAt(log, log.first), recordAt(log, from)
    reply[size + 1], reply[size + 2] = oldest, (total - before) % TOTALS
    size, before, from = size + 2, total, from + 1
  end
  for index = from, log.count do
    local at, total = recordAt(log, index)
    reply[size + 1], reply[size + 2] = at, (total - before) % TOTALS
    size, before = size + 2, total
  end
  return size
end
