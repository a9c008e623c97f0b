-- Admits a take of a token bucket in the most common case: the value is absent, or narrow and not
-- ahead of now, and the whole amount is available. The results equal those of `take`, `expiresAt`
-- and `readValue` of take.lua and value.lua, without creating and calling a dozen functions, which
-- takes several times as long. An amount below 0 gives back, as long as something stays in use.
-- Returns nothing in every other case; else the expiry of the key, the units left, the reset time,
-- the take's time, the expiry of the state, and the state.
local function admitBucket(value, format, capacity, lent, p, q, tickUs, amount, now)
  local kept, at, inUse = 0, now, 0
  if amount == 0 or amount > capacity then return nil end
  if value then
    if #value ~= 20 then return nil end
    local found, bucketAt, used, part
    found, kept, bucketAt, used, part = struct.unpack('>BI4I7I4I4', value)
    if found ~= format or bucketAt > now or part >= q or used >= capacity + lent then return nil end
    local before, ticks = used * q + part, (now - bucketAt) / tickUs
    ticks = ticks - ticks % 1
    if ticks < before / p then
      inUse = before - ticks * p
      if tickUs ~= 1 then at = now - (now - bucketAt) % tickUs end
    end
  end
  inUse = inUse + amount * q
  if inUse <= 0 then return nil end
  local used, ticks = inUse / q, inUse / p
  local left = capacity - (used + -used % 1)
  if left < 0 then return nil end
  used = used - used % 1
  local part, regainUs = inUse - used * q, (ticks + -ticks % 1) * tickUs
  if used >= 4294967296 or part >= 4294967296 then return nil end
  local resetMs = (at - now + regainUs) / 1000
  return kept, left, resetMs + -resetMs % 1, at, at + regainUs, at, used, part
end
