-- Until when a key is kept, in spans of about four seconds, so that many keys share one TTL.
--
-- After every write a key lives at least twice as long as its state means something. To set a TTL
-- costs twice as much as to write over a value, so it is set only where it would be less than that.

local SPAN_US = 4194304
-- What fits into the four bytes of a value.
local SPANS_MAX = 4294967295
-- Redis counts a TTL in milliseconds from the start of a script, so a key goes a little too soon.
local EARLY_US = 10000

-- The span in which a time lies, but at least one whole span from now.
local function spanOf(time, now)
  if time < now + SPAN_US then time = now + SPAN_US end
  local spans = time / SPAN_US
  spans = spans + -spans % 1
  if spans > SPANS_MAX then return SPANS_MAX end
  return spans
end

-- The TTL of what is kept so long, in milliseconds and as text, because a number would be formatted
-- with 17 digits.
local function ttlOf(kept, now)
  local ms = (kept * SPAN_US - now) / 1000
  return string.format('%d', ms + -ms % 1)
end
