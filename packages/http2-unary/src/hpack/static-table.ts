/** The static table of RFC 7541, appendix A: a name on each line, and after a space its value. */
const TABLE = `
:authority
:method GET
:method POST
:path /
:path /index.html
:scheme http
:scheme https
:status 200
:status 204
:status 206
:status 304
:status 400
:status 404
:status 500
accept-charset
accept-encoding gzip, deflate
accept-language
accept-ranges
accept
access-control-allow-origin
age
allow
authorization
cache-control
content-disposition
content-encoding
content-language
content-length
content-location
content-range
content-type
cookie
date
etag
expect
expires
from
host
if-match
if-modified-since
if-none-match
if-range
if-unmodified-since
last-modified
link
location
max-forwards
proxy-authenticate
proxy-authorization
range
referer
refresh
retry-after
server
set-cookie
strict-transport-security
transfer-encoding
user-agent
vary
via
www-authenticate
`

/** Its fields, from index 1 on. */
export const STATIC_TABLE: readonly (readonly [name: string, value: string])[] = TABLE.trim()
  .split('\n')
  .map((line) => {
    const space = line.indexOf(' ')
    return space === -1 ? [line, ''] : [line.slice(0, space), line.slice(space + 1)]
  })
