-- The stored format of a state: the limit's format, its expiry, and its numbers, narrow if they
-- fit. The expiry is in spans of about four seconds, rounded up: a key that lives long enough keeps
-- its TTL, which costs half as much as setting one.

-- Returns the expiry, then the state; 0 and no state if it is of another algorithm or damaged.
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
