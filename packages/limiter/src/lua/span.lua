-- Computes the expiry of keys, in spans of about four seconds, so that many keys share one TTL.
--
-- After every write a key lives at least twice as long as its state is in use. Setting a TTL costs
-- twice as much as overwriting a value, so it is set only if the present one is too short.

local SPAN_US = 4194304
-- The largest number of spans in the four bytes of a value.
local SPANS_MAX = 4294967295
-- Redis counts a TTL in milliseconds from the start of a script, so a key expires slightly early.
local EARLY_US = 10000

-- Returns the span of a time, but at least one whole span from now.
local function spanOf(time, now)
  if time < now + SPAN_US then time = now + SPAN_US end
  local spans = time / SPAN_US
  spans = spans + -spans % 1
  if spans > SPANS_MAX then return SPANS_MAX end
  return spans
end

-- Returns the TTL of a key in milliseconds, as text, because a number would be formatted with 17
-- digits.
local function ttlOf(kept, now)
  local ms = (kept * SPAN_US - now) / 1000
  return string.format('%d', ms + -ms % 1)
end
