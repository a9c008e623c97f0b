-- Until when a key is kept, in spans of about four seconds, so that many keys share one TTL.

local SPAN_US = 4194304
-- Redis counts a TTL in milliseconds from the start of a script, so a key goes a little too soon.
local EARLY_US = 10000

-- The span in which a time lies, but at least one whole span from now.
local function spanOf(time, now)
  if time < now + SPAN_US then time = now + SPAN_US end
  local spans = time / SPAN_US
  return spans + -spans % 1
end

-- The TTL of what is kept so long, in milliseconds and as text, because a number would be formatted
-- with 17 digits.
local function ttlOf(kept, now)
  local ms = (kept * SPAN_US - now) / 1000
  return string.format('%d', ms + -ms % 1)
end
