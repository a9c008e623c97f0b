-- Integer arithmetic in doubles, exact up to 2^53 - 1 like that of TypeScript's numbers.ts.
-- `n - n % 1` is floor and `n + -n % 1` is ceil, without a call of math.floor.

local function floorDiv(a, b)
  local n = a / b
  return n - n % 1
end

local function ceilDiv(a, b)
  local n = a / b
  return n + -n % 1
end

-- Waits round up: a caller that waits exactly this long must pass.
local function usToMsUp(us)
  local n = us / 1000
  return n + -n % 1
end

local function least(a, b)
  if a < b then return a end
  return b
end

local function most(a, b)
  if a > b then return a end
  return b
end

-- Whether a state's time is so far ahead that another clock must have written it.
local function isFromAnotherClock(stateAt, limit, now)
  return stateAt - now > limit.windowUs
end

-- Windows start at multiples of their length since 1970.
local function windowStart(at, limit)
  return at - at % limit.windowUs
end
