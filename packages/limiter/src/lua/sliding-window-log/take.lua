-- Sliding window log, twin of sliding-window-log.ts. A state is a loaded log, see records.lua.

local DEBT_MAX = 10000

local function isEmpty(log)
  return log == nil or log.count < log.first
end

local function countOf(log)
  if isEmpty(log) then return 0 end
  return (log.newestTotal - log.before) % TOTALS
end

-- Returns the log from the first record after `edge`.
local function inSight(log, edge)
  if log.newestAt <= edge then return startFrom(log, log.count + 1, log.newestTotal) end
  local first = search(log, log.first, function(at) return at <= edge end)
  if first == log.first then return log end
  return startFrom(log, first, totalBefore(log, first))
end

-- Inserts units in time order; units at an existing instant are added to it.
local function insert(log, at, units)
  if isEmpty(log) then return replaceFrom(newLog(at), 1, struct.pack(RECORD, 0, units), 1) end
  if at < log.base then log = rebase(log, at) end
  if at - log.base > SINCE_BASE_MAX then log = rebase(log, (recordAt(log, log.first))) end
  local from = log.count
  if at > log.newestAt then
    from = from + 1
  elseif at < log.newestAt then
    from = search(log, log.first, function(time) return time < at end)
  end
  if from <= log.count and recordAt(log, from) == at then
    return replaceFrom(log, from, shifted(log, from, units), log.count)
  end
  local total = (totalBefore(log, from) + units) % TOTALS
  local records = struct.pack(RECORD, at - log.base, total) .. shifted(log, from, units)
  return replaceFrom(log, from, records, log.count + 1)
end

-- Merges entries ahead of now into one at now; otherwise a give would find several for one instant.
local function moveBack(log, now)
  if log.base > now then return insert(nil, now, countOf(log)) end
  local from = search(log, log.first, function(at) return at < now end)
  return replaceFrom(log, from, struct.pack(RECORD, now - log.base, log.newestTotal), from)
end

-- Returns the time used as now, the log within the window, and whether another clock wrote it.
local function view(log, limit, now)
  if isEmpty(log) then return now, nil, false end
  local moved = isFromAnotherClock(log.newestAt, limit, now)
  local at = moved and now or most(now, log.newestAt)
  if moved then log = moveBack(log, now) end
  return at, inSight(log, at - limit.windowUs), moved
end

-- Returns the microseconds until enough entries have expired for the amount to fit.
local function waitFor(log, count, limit, amount, now)
  local excess = count + amount - limit.max
  if isEmpty(log) then return 0 end
  local last = search(log, log.first, function(_, total)
    return (total - log.before) % TOTALS < excess
  end)
  if last > log.count then return 0 end
  return recordAt(log, last) + limit.windowUs - now
end

local function resetAfterMs(log, limit, now)
  if isEmpty(log) then return 0 end
  return usToMsUp(log.newestAt + limit.windowUs - now)
end

local function admit(at, log, count, moved, limit, now, granted)
  local after = log
  if granted ~= 0 then after = insert(log, at, granted) end
  return granted, most(0, limit.max - count - granted), resetAfterMs(after, limit, now), 0, 0, at,
    granted ~= 0 and after or nil, nil, nil, nil, moved and log or nil
end

local function refuse(at, log, count, moved, limit, amount, now)
  local retryMs
  if amount <= limit.max then retryMs = usToMsUp(waitFor(log, count, limit, amount, now)) end
  return 0, most(0, limit.max - count), resetAfterMs(log, limit, now), retryMs, 0, at,
    nil, nil, nil, nil, moved and log or nil
end

local function take(state, _, _, _, limit, amount, now, atLeast)
  local at, log, moved = view(state, limit, now)
  local count = countOf(log)
  if amount == 0 then return admit(at, log, count, false, limit, now, 0) end
  local granted = least(amount, limit.max - count)
  if granted >= atLeast then return admit(at, log, count, moved, limit, now, granted) end
  return refuse(at, log, count, moved, limit, atLeast, now)
end

local function expiresAt(log, _, _, _, limit)
  if isEmpty(log) then return 0 end
  return log.newestAt + limit.windowUs
end
