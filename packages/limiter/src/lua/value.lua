-- How a state lies in bytes: the limit's format, until when it is kept, and its numbers, narrow
-- where they fit. That time is in spans of about four seconds, rounded up: a key that is kept for
-- long enough keeps its TTL, which costs half as much as to set one.

local SPAN_US = 4194304

-- Until when it is kept, then the state; 0 and nothing where it is of another algorithm or damaged.
local function readValue(value, format, narrow, narrowSize, wide, wideSize)
  local size, layout = #value, narrow
  if size ~= narrowSize then
    if size ~= wideSize then return 0 end
    layout = wide
  end
  local found, kept, a, b, c, d = struct.unpack(layout, value)
  if found ~= format then return 0 end
  return kept, a, b, c, d
end

local function packValue(format, kept, narrow, narrowBelow, wide, a, b, c, d)
  local layout = narrow
  if b >= 4294967296 or c and (c >= narrowBelow or d and d >= 65536) then layout = wide end
  return struct.pack(layout, format, kept, a, b, c, d)
end

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
