-- Finds the commands that the user of this connection may not run.
-- KEYS: a key of the prefix that nothing else writes.
-- ARGV: commands with their words, the key as `K`.
-- Returns the names of those that are refused.
local refused = {}

-- Before Redis 7 the only test is to run a command, so each one is chosen to be harmless.
local function tried(words)
  local reply = redis.pcall(unpack(words))
  local message = type(reply) == 'table' and reply.err or ''
  return not string.find(message, "can't run this command", 1, true)
    and not string.find(message, "can't access", 1, true)
    and not string.find(message, 'NOPERM', 1, true)
end

-- A command that the server does not have is not reported as missing rights.
local function checked(words)
  local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
  return not known or allowed
end

for _, text in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(text, '%S+') do
    words[#words + 1] = word == 'K' and KEYS[1] or word
  end
  local check = redis.acl_check_cmd and checked or tried
  if not check(words) then refused[#refused + 1] = words[1] end
end

if not redis.acl_check_cmd then redis.pcall('DEL', KEYS[1]) end
return refused
