-- Decodes the request of a batch: whole numbers in MessagePack, as written by
-- redis/protocol/batch-request.ts; in an array if there are more than Lua can return at once.

local request = { cmsgpack.unpack(ARGV[1]) }
if #request == 1 then request = request[1] end

-- TIME is read once. A test may pass in the time; a batch that arrives too late does nothing.
local now = request[2]
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if request[1] > 0 and now > request[1] then return cmsgpack.pack({ 0, now }) end

-- Counters are numbered: first those with a value, then lists, then those that are only deleted.
-- Each has a key, except in the packed layout: there values are in hashes, whose keys come first.
local valueCount, listCount, forgottenCount = request[3], request[4], request[5]
local hashCount = request[6]
local isPacked, keysBefore, place = hashCount > 0, 0, 7
if isPacked then
  keysBefore = hashCount - valueCount
  place = 7 + valueCount
end

-- `algorithm`, the functions of its algorithm, is created when a take needs more than `admit`.
local algorithms, limits = {}, {}
for index = 1, request[place] do
  limits[index] = {
    format = request[place + 1],
    max = request[place + 2],
    windowUs = request[place + 3],
    capacity = request[place + 4],
    p = request[place + 5],
    q = request[place + 6],
    tickUs = request[place + 7],
    maxWaitUs = request[place + 8],
    lent = request[place + 9],
    scale = request[place + 10],
    scaledWindow = request[place + 11],
    charges = request[place + 12] == 1,
    debt = request[place + 13],
  }
  place = place + 13
end
place = place + 1
