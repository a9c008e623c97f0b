-- Finds how Redis encodes a hash of the packed layout. A single script, so that nodes that start
-- together do not delete each other's probe.
-- KEYS: the probe. ARGV: fields, bytes of a field, bytes of a value.
-- Returns the encoding.
local probe, fields = KEYS[1], tonumber(ARGV[1])
local field, value = '%0' .. ARGV[2] .. 'd', string.rep('s', tonumber(ARGV[3]))

for i = 1, fields do
  redis.call('HSET', probe, string.format(field, i), value)
end
redis.call('PEXPIRE', probe, '10000')
local encoding = redis.call('OBJECT', 'ENCODING', probe)
redis.call('DEL', probe)
return encoding
