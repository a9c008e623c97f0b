/** Parses the names of headers that identify callers. */
import { reportAt, readText, type Located } from '@sluice/core/config-reader'
import { hideLongText } from './fields.js'

const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/
const NAME_LENGTH_MAX = 64
const ACCEPTED = 'the name of a header such as x-tenant-id: letters, digits and "-"'

/**
 * CGI, WSGI and similar servers read `x_user` as `x-user`, so a caller could send one for the
 * other.
 */
const ALIAS = /[_.]/
const ACCEPTED_PLAIN =
  'a name without "_" and ".", such as x-tenant-id; ' +
  'other programs read them as "-", and the gateway drops such aliases'

/** These headers describe the message and its connection, not its sender. */
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
  'x-forwarded-method',
  'x-forwarded-port',
  'x-forwarded-proto',
  'x-forwarded-uri',
  'x-original-method',
  'x-original-uri',
  'x-original-url',
  'x-real-ip',
  'x-rewrite-url',
])

/** If these were shown, a reader of a log or of the dashboard could impersonate any caller. */
const CREDENTIALS: ReadonlySet<string> = new Set(['authorization', 'cookie', 'proxy-authorization'])

/** Returns the name in lower case. */
function readHeaderName(located: Located): string | undefined {
  const shown = hideLongText(located)
  const text = readText(shown, { accepted: ACCEPTED, most: NAME_LENGTH_MAX })
  if (text === undefined) return undefined
  const name = text.toLowerCase()
  if (!NAME.test(name)) return reportAt(shown, 'bad-value', { accepted: ACCEPTED })
  if (ALIAS.test(name)) return reportAt(shown, 'bad-value', { accepted: ACCEPTED_PLAIN })
  if (!NO_IDENTITY.has(name)) return name
  const accepted = 'a header that says who calls; this one is about the message and its way'
  return reportAt(located, 'bad-value', { accepted })
}

export function isCredential(header: string): boolean {
  return CREDENTIALS.has(header)
}

/** Each header has one meaning: with two, a key could be shown as an open attribute. */
export class HeaderNames {
  readonly #fieldByName = new Map<string, string>()

  read(located: Located): string | undefined {
    const name = readHeaderName(located)
    return name === undefined || !this.take(name, located) ? undefined : name
  }

  /** Whether nothing else is read from the header; reports it otherwise. Also for defaults. */
  take(name: string, located: Located): boolean {
    const field = this.#fieldByName.get(name)
    if (field === undefined) {
      this.#fieldByName.set(name, located.field)
      return true
    }
    const accepted = `a header of its own; this one is that of ${field}`
    reportAt(located, 'duplicate-value', { found: `"${name}"`, accepted })
    return false
  }
}
