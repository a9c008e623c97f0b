-- HAProxy asks Sluice before every call: `lua-load` this file, then `http-request lua.sluice`.
-- Made for HAProxy 2.6 and later.
--
-- A refusal goes to the client from here, whole. Otherwise txn.sluice is "allowed", or "silent" if
-- there was no decision, and the headers of the decision stand in txn.sluice_ratelimit and so on.

-- The listener `sluice` of haproxy.cfg, which bounds the time. The HTTP client alone would ask four
-- times before it gives up, and Sluice would count each.
local ASK = "http://127.0.0.1:8001/v1/forward-auth"
local ASK_MS_MAX = 2000

-- What says who calls. Add the headers that your sluice.yaml names under identity, but none of its
-- proxyHeaders: those are believed, so they must never be the client's.
local PASSED_ON = { "authorization", "x-api-key" }

local SHOWN = {
  "ratelimit-policy", "ratelimit", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
}

-- Of the connection to Sluice, not of the answer.
local HOP_BY_HOP = {
  ["connection"] = true, ["content-length"] = true, ["date"] = true, ["keep-alive"] = true,
  ["transfer-encoding"] = true,
}

local function question(txn)
  local sent = txn.http:req_get_headers()
  local headers = {
    ["x-forwarded-for"] = { txn.f:src() },
    ["x-forwarded-method"] = { txn.f:method() },
    ["x-forwarded-uri"] = { txn.f:pathq() },
  }
  -- With all values of a header that was sent twice: Sluice refuses to choose between them.
  for _, name in ipairs(PASSED_ON) do headers[name] = sent[name] end
  return headers
end

local function refuse(txn, status, headers, body)
  local reply = txn:reply({ status = status })
  for name, values in pairs(headers) do
    if not HOP_BY_HOP[name] then
      for _, value in pairs(values) do reply:add_header(name, value) end
    end
  end
  reply:set_body(body)
  txn:done(reply)
end

core.register_action("sluice", { "http-req" }, function(txn)
  local answer = core.httpclient():get({ url = ASK, headers = question(txn), timeout = ASK_MS_MAX })
  local status = answer.status or 0
  if status == 200 then
    for _, name in ipairs(SHOWN) do
      for _, value in pairs(answer.headers[name] or {}) do
        txn:set_var("txn.sluice_" .. name:gsub("-", "_"), value)
      end
    end
    txn:set_var("txn.sluice", "allowed")
  elseif status == 0 or status >= 500 then
    txn:set_var("txn.sluice", "silent")
  else
    refuse(txn, status, answer.headers, answer.body or "")
  end
end, 0)
