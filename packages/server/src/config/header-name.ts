/** Names of headers that say who calls. */
import { complain, readText, type Spot } from '@sluice/core/reading'

const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/
const NAME_LENGTH_MAX = 64
const ACCEPTED = 'the name of a header such as x-tenant-id: letters, digits and "-"'

/** They are about the message and its way, not about who sent it. */
const NO_IDENTITY: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'date',
  'expect',
  'forwarded',
  'host',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'via',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-forwarded-proto',
])

/** Whoever can read a log or the dashboard could be any caller. */
const CREDENTIALS: ReadonlySet<string> = new Set(['authorization', 'cookie', 'proxy-authorization'])

/** In lower case. */
function readHeaderName(spot: Spot): string | undefined {
  const text = readText(spot, { accepted: ACCEPTED, most: NAME_LENGTH_MAX })
  if (text === undefined) return undefined
  const name = text.toLowerCase()
  if (!NAME.test(name)) return complain(spot, 'bad-value', { accepted: ACCEPTED })
  if (!NO_IDENTITY.has(name)) return name
  const accepted = 'a header that says who calls; this one is about the message and its way'
  return complain(spot, 'bad-value', { accepted })
}

export function isCredential(header: string): boolean {
  return CREDENTIALS.has(header)
}

/** Each header has one meaning: read as two, a key could be shown as an open attribute. */
export class HeaderNames {
  readonly #fieldByName = new Map<string, string>()

  read(spot: Spot): string | undefined {
    const name = readHeaderName(spot)
    return name === undefined || !this.take(name, spot) ? undefined : name
  }

  /** Whether nothing else is read from it; told of if it is. Also for defaults. */
  take(name: string, spot: Spot): boolean {
    const field = this.#fieldByName.get(name)
    if (field === undefined) {
      this.#fieldByName.set(name, spot.field)
      return true
    }
    const accepted = `a header of its own; this one is that of ${field}`
    complain(spot, 'duplicate-value', { found: `"${name}"`, accepted })
    return false
  }
}
