-- The packed layout: values are in hashes, under the 8 bytes of their counter's hash. A value
-- includes its expiry, so that a hash can be trimmed without its limits.

local TRIM_ABOVE = 128
local TRIM_EVERY = 8
local TRIM_MAX = 1000
local mayTrim = true

local function fieldOf(counter)
  return string.sub(ARGV[2], 8 * counter - 7, 8 * counter)
end

local function hashOf(counter)
  return KEYS[request[6 + counter]]
end

local function readFields(valueCount)
  local values = {}
  for counter = 1, valueCount do
    values[counter] = redis.pcall('HGET', hashOf(counter), fieldOf(counter))
  end
  return values
end

-- Drops the expired fields of a hash.
local function trim(hash)
  local fields, dead = redis.call('HGETALL', hash), {}
  for index = 1, #fields, 2 do
    local value = fields[index + 1]
    local isDead = #value > 4 and struct.unpack('>I4', value, 2) * SPAN_US <= now
    if isDead and #dead < TRIM_MAX then dead[#dead + 1] = fields[index] end
  end
  if #dead > 0 then redis.call('HDEL', hash, (table.unpack or unpack)(dead)) end
end

-- Raises the TTL of a hash. It covers all its counters, so it is never lowered: a hash lives at
-- least twice as long as a written value is in use. `ttl` is the time until that value expires.
local function raiseTtl(hash, ttl)
  if redis.call('PTTL', hash) < 2 * ttl then
    redis.call('PEXPIRE', hash, string.format('%d', 2 * ttl))
  end
end

-- Writes a field. A hash above 128 fields is trimmed, but not at every new field and only one per
-- batch: reading all of its fields takes as long as twenty takes.
local function writeField(counter, value, ttl)
  local hash, field = hashOf(counter), fieldOf(counter)
  if not value then
    redis.call('HDEL', hash, field)
    return
  end
  local isNew = redis.call('HSET', hash, field, value) == 1
  if ttl then raiseTtl(hash, ttl) end
  if not isNew or not mayTrim then return end
  local size = redis.call('HLEN', hash)
  if size > TRIM_ABOVE and size % TRIM_EVERY == 0 then
    mayTrim = false
    trim(hash)
  end
end

return { readFields = readFields, writeField = writeField }
