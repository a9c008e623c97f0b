-- Token bucket and gcra, twin of token-bucket.ts. A state is (at, used, part): its time, the whole
-- units in use, and the rest in q-ths of a unit. Most takes are of this kind, so divisions are
-- inlined: `n - n % 1` rounds down and `n + -n % 1` up.

-- Returns the usage at the last update, in q-ths of a unit.
local function inUseThen(used, part, limit)
  local most, q = limit.capacity + limit.lent, limit.q
  if used >= most then return most * q end
  if part >= q then return used * q + q - 1 end
  return used * q + part
end

-- Returns the usage now: the whole ticks since the last update gave back p each; the product is
-- skipped if it would exceed the usage.
local function inUseNow(bucketAt, used, part, limit, now)
  if bucketAt == nil or limit.capacity == 0 then return 0 end
  local before = inUseThen(used, part, limit)
  if bucketAt >= now then return before end
  local p, ticks = limit.p, (now - bucketAt) / limit.tickUs
  ticks = ticks - ticks % 1
  if ticks >= before / p then return 0 end
  return before - ticks * p
end

-- Returns the instant to which `inUse` applies, a whole number of ticks after the last; then
-- whether another clock wrote the state.
local function timeOf(bucketAt, limit, now, inUse)
  if bucketAt == nil or limit.capacity == 0 then return now, false end
  if bucketAt > now then
    if bucketAt - now > limit.windowUs then return now, true end
    return bucketAt, false
  end
  local tickUs = limit.tickUs
  if inUse == 0 or tickUs == 1 then return now, false end
  return now - (now - bucketAt) % tickUs, false
end

local function toBucket(at, inUse, limit)
  local q = limit.q
  local used = inUse / q
  used = used - used % 1
  return at, used, inUse - used * q
end

-- Returns the whole units that are entirely unused.
local function remaining(inUse, limit)
  local units = inUse / limit.q
  local free = limit.capacity - (units + -units % 1)
  if free < 0 then return 0 end
  return free
end

-- Returns the microseconds from now until the usage of `at` has dropped by `excess` q-ths.
local function timeToRegain(excess, at, limit, now)
  if excess <= 0 then return 0 end
  local ticks = excess / limit.p
  return at - now + (ticks + -ticks % 1) * limit.tickUs
end

-- Returns the microseconds until the amount is available; a bucket with `wait` admits earlier.
local function waitFor(amount, inUse, at, limit, now)
  return timeToRegain(inUse - (limit.capacity - amount) * limit.q, at, limit, now)
end

local function admit(limit, now, inUse, at, moved, granted, delayUs)
  local after = inUse + granted * limit.q
  local left, delayMs = remaining(after, limit), 0
  local resetMs = timeToRegain(after, at, limit, now) / 1000
  resetMs = resetMs + -resetMs % 1
  if delayUs > 0 then
    delayMs = delayUs / 1000
    delayMs = delayMs + -delayMs % 1
  end
  local stateAt, used, part
  if granted ~= 0 then stateAt, used, part = toBucket(at, after, limit) end
  if not moved then return granted, left, resetMs, 0, delayMs, at, stateAt, used, part end
  return granted, left, resetMs, 0, delayMs, at, stateAt, used, part, nil,
    toBucket(at, inUse, limit)
end

local function refuse(limit, now, inUse, at, moved, retryUs)
  local left, retryMs = remaining(inUse, limit), nil
  local resetMs = timeToRegain(inUse, at, limit, now) / 1000
  resetMs = resetMs + -resetMs % 1
  if retryUs then
    retryMs = retryUs / 1000
    retryMs = retryMs + -retryMs % 1
  end
  if not moved then return 0, left, resetMs, retryMs, 0, at end
  return 0, left, resetMs, retryMs, 0, at, nil, nil, nil, nil, toBucket(at, inUse, limit)
end

local function take(bucketAt, used, part, _, limit, amount, now, atLeast)
  local inUse = inUseNow(bucketAt, used, part, limit, now)
  local at, moved = timeOf(bucketAt, limit, now, inUse)
  -- Amount 0 writes nothing, not even a rebased state.
  if amount == 0 then return admit(limit, now, inUse, at, false, 0, 0) end
  local capacity, maxWaitUs = limit.capacity, limit.maxWaitUs
  if atLeast > capacity then return refuse(limit, now, inUse, at, moved, nil) end

  local waitUs
  if amount <= capacity then
    waitUs = waitFor(amount, inUse, at, limit, now)
    if waitUs <= maxWaitUs then return admit(limit, now, inUse, at, moved, amount, waitUs) end
  end
  local there = remaining(inUse, limit)
  if there >= atLeast then return admit(limit, now, inUse, at, moved, there, 0) end
  -- Whichever comes first: `atLeast` is available, or the whole amount is near enough to wait for.
  local retryUs = waitFor(atLeast, inUse, at, limit, now)
  if waitUs and waitUs - maxWaitUs < retryUs then retryUs = waitUs - maxWaitUs end
  return refuse(limit, now, inUse, at, moved, retryUs)
end

local function expiresAt(bucketAt, used, part, _, limit)
  if limit.capacity == 0 then return bucketAt + limit.windowUs end
  local ticks = inUseThen(used, part, limit) / limit.p
  return bucketAt + (ticks + -ticks % 1) * limit.tickUs
end
