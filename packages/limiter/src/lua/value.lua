-- How a state lies in bytes: the limit's format, until when it is kept, and its numbers, narrow
-- where they fit. That time is in spans of about four seconds, rounded up: a key that is kept for
-- long enough keeps its TTL, which costs half as much as to set one.

-- Until when it is kept, then the state; 0 and nothing where it is of another algorithm or damaged.
local function readValue(value, format)
  local size, layout = #value, NARROW
  if size ~= NARROW_SIZE then
    if size ~= WIDE_SIZE then return 0 end
    layout = WIDE
  end
  local found, kept, a, b, c, d = struct.unpack(layout, value)
  if found ~= format then return 0 end
  return kept, a, b, c, d
end

local function packValue(format, kept, a, b, c, d)
  if b >= 4294967296 or c and (c >= NARROW_BELOW or d and d >= 65536) then
    return struct.pack(WIDE, format, kept, a, b, c, d)
  end
  return struct.pack(NARROW, format, kept, a, b, c, d)
end
