-- Sliding window log: the verbs other than take. Continues take.lua.

local function peek(state, _, _, _, limit, amount, now)
  local at, log, moved = view(state, limit, now)
  local count = countOf(log)
  if amount == 0 or count + amount <= limit.max then
    return admit(at, log, count, moved, limit, now, 0)
  end
  return refuse(at, log, count, moved, limit, amount, now)
end

-- Removes the oldest entries: the log starts later, with a higher total before its start.
local function giveOldest(log, amount)
  local units = least(amount, countOf(log))
  local first = search(log, log.first, function(_, total)
    return (total - log.before) % TOTALS <= units
  end)
  return startFrom(log, first, (log.before + units) % TOTALS)
end

local function give(state, _, _, _, limit, amount, now, at)
  if state == nil then return nil end
  local _, log = view(state, limit, now)
  if isEmpty(log) then
    if at == nil then return log or state end
    return nil
  end
  if at == nil then return giveOldest(log, amount) end
  local from = search(log, log.first, function(time) return time < at end)
  if from > log.count or recordAt(log, from) ~= at then return nil end
  local _, total = recordAt(log, from)
  local units = (total - totalBefore(log, from)) % TOTALS
  if amount < units then return replaceFrom(log, from, shifted(log, from, -amount), log.count) end
  return replaceFrom(log, from, shifted(log, from + 1, -units), log.count - 1)
end

-- Charges units; a log owes at most 10,000 units, so that it never holds more than 20,000.
local function charge(state, _, _, _, limit, amount, now, at, debt)
  local seenAt, log = view(state, limit, now)
  local spentAt = least(at, seenAt)
  local units = least(amount, limit.max + least(debt, DEBT_MAX) - countOf(log))
  if units <= 0 or spentAt <= seenAt - limit.windowUs then return nil end
  return insert(log, spentAt, units)
end

return {
  take = take, peek = peek, give = give, charge = charge, expiresAt = expiresAt,
  open = openLog, write = writeLog, say = sayLog,
}
