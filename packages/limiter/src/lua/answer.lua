-- Appends one outcome to the reply: the units left and the reset time. Values that differ from
-- those of most takes follow, preceded by a negative mark that lists them. `expected` is the amount
-- granted to a take that passes. Returns the reply's new size.
local function answer(reply, size, now, expected, states,
    granted, remaining, resetMs, retryMs, delayMs, at)
  if retryMs == 0 and granted == expected and delayMs == 0 and at == now and not states then
    reply[size + 1], reply[size + 2] = remaining, resetMs
    return size + 2
  end
  local markAt, mark, last = size + 1, 0, size + 3
  reply[markAt], reply[markAt + 1], reply[last] = 0, remaining, resetMs
  if retryMs ~= 0 then
    mark, expected, last = 1, 0, last + 1
    reply[last] = retryMs and retryMs + 1 or 0
  end
  if granted ~= expected then
    mark, last = mark + 2, last + 1
    reply[last] = granted
  end
  if delayMs ~= 0 then
    mark, last = mark + 4, last + 1
    reply[last] = delayMs
  end
  if at ~= now then
    mark, last = mark + 8, last + 1
    reply[last] = at - now
  end
  if states then mark = mark + 16 end
  reply[markAt] = -mark
  return last
end

-- Appends a state to the reply: its count of numbers, then the numbers. Returns the reply's new
-- size.
local function sayState(reply, size, numbers, a, b, c, d)
  if a == nil then
    reply[size + 1] = 0
    return size + 1
  end
  reply[size + 1], reply[size + 2], reply[size + 3] = numbers, a, b
  if numbers > 2 then reply[size + 4] = c end
  if numbers > 3 then reply[size + 5] = d end
  return size + 1 + numbers
end
