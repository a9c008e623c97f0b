/** Parses URLs that the server itself requests: of upstreams, of keys for tokens, of a webhook. */
import { cidrContains, parseAddress, parseCidr, show } from '@sluice/core'
import { reportAt, readText, type Located } from '@sluice/core/config-reader'
import { hideText } from './fields.js'
import { isLoopback } from '../lib/loopback.js'

const URL_LENGTH_MAX = 2048
const SHOWN_MAX = 64
/** Leaves room for the problem in the same message. */
const SHOWN_BESIDE_MAX = 30
const ACCEPTED_UPSTREAM = 'http:// or https:// and a host, such as http://127.0.0.1:3000'
const ACCEPTED_WEBHOOK =
  'http:// or https:// and where alerts go, such as https://alerts.example/sluice'
const ACCEPTED_JWKS = 'https:// and where the keys are, such as https://issuer.example/jwks.json'

/** These services hand out credentials of the machine to any local client. */
const FORBIDDEN = ['169.254.0.0/16', 'fe80::/10', 'fd00:ec2::254'].flatMap((text) => {
  const cidr = parseCidr(text)
  return 'problem' in cidr ? [] : cidr
})

/**
 * Compares bits, so IPv4-mapped IPv6 is IPv4. A name is not an address, and is not resolved here.
 */
export function isForbidden(host: string): boolean {
  const address = parseAddress(host)
  return address !== undefined && FORBIDDEN.some((cidr) => cidrContains(cidr, address))
}

/** `http://host:port`. */
export function readOrigin(located: Located): string | undefined {
  const url = readUrl(located, ACCEPTED_UPSTREAM)
  if (url === undefined) return undefined
  if (url.href.includes('?')) {
    return refuse(located, 'with a query', 'a URL without one; each call has its own')
  }
  if (url.pathname !== '/') {
    const accepted = `${show(url.origin)}, without a path; the path of a call is passed on as it is`
    return refuse(located, 'with a path', accepted)
  }
  return url.origin
}

export function readJwksUrl(located: Located): string | undefined {
  const url = readUrl(located, ACCEPTED_JWKS)
  if (url === undefined) return undefined
  if (url.protocol === 'https:' || isLoopback(hostOf(url))) return url.href
  const why = 'whoever is on the way could replace the keys'
  return refuse(located, 'without TLS', `https://, or http:// to loopback; ${why}`)
}

/** The path of many webhooks is a secret, so messages show the host at most. */
export function readWebhookUrl(located: Located): string | undefined {
  return readUrl(hidePath(located), ACCEPTED_WEBHOOK)?.href
}

function hidePath({ node, field, report }: Located): Located {
  return {
    node,
    field,
    report: (finding) => {
      const found = finding.found.replace(/^("(?:https?:\/\/)?[^/"]*\/).*"(?=,|$)/s, '$1…"')
      return report({ ...finding, found })
    },
  }
}

function readUrl(located: Located, accepted: string): URL | undefined {
  const shown = hideText(located, describeUrl(located))
  const text = readText(shown, { accepted, most: URL_LENGTH_MAX })
  if (text === undefined) return undefined
  // The URL parser drops tabs and line ends, and reads `\` as `/` and `http:x` as `http://x`.
  const isUrl = /^https?:\/\/[^/\s\\]+[^\s\\]*$/i.test(text) && URL.canParse(text)
  if (!isUrl) return reportAt(shown, 'bad-value', { accepted })
  const url = new URL(text)
  if (/^[^/]*\/\/[^/?#]*@/.test(text)) {
    return refuse(located, 'with credentials', 'a URL without user and password')
  }
  if (text.includes('#')) return refuse(located, 'with a fragment', 'a URL without one')
  if (isForbidden(hostOf(url))) {
    const why = 'link-local addresses hand out credentials of the machine'
    return refuse(located, 'a link-local or metadata address', `another host; ${why}`)
  }
  return url
}

function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '')
}

function refuse(located: Located, what: string, accepted: string): undefined {
  return reportAt(located, 'bad-value', {
    found: `${describeUrl(located, SHOWN_BESIDE_MAX)}, ${what}`,
    accepted,
  })
}

/** A colon that begins neither `//` nor a port, and is not in an IPv6 address. */
const PASSWORD = /(?<!\[[^\]]*):(?!\/\/|\d{1,5}(?:[/?#]|$)).*$/s

/** Hides what may be a password: before the last `@`, after `?`, after a misplaced colon. */
function describeUrl({ node }: Located, most = SHOWN_MAX): string {
  if (node.kind !== 'scalar') return node.kind === 'list' ? 'a list' : 'a map'
  if (typeof node.value !== 'string') return show(node.source ?? node.value)
  const text = node.value.slice(0, URL_LENGTH_MAX)
  const shown = text
    .slice(text.lastIndexOf('@') + 1)
    .replace(/\?.*$/s, '?…')
    .replace(PASSWORD, ':…')
    .replace(/["\\]/g, '\\$&')
  return `"${show(text.includes('@') ? `…@${shown}` : shown, most - 2)}"`
}
