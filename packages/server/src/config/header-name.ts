/** Names of headers that say who calls. */
import { reportAt, readText, type Located } from '@sluice/core/config-reader'
import { hideLongText } from './fields.js'

const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/
const NAME_LENGTH_MAX = 64
const ACCEPTED = 'the name of a header such as x-tenant-id: letters, digits and "-"'

/** In CGI, WSGI and their heirs `x_user` is `x-user`, so a caller could write one for the other. */
const ALIAS = /[_.]/
const ACCEPTED_PLAIN =
  'a name without "_" and ".", such as x-tenant-id; ' +
  'other programs read them as "-", and the gateway drops such aliases'

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

/** Whoever can read a log or the dashboard could be any caller. */
const CREDENTIALS: ReadonlySet<string> = new Set(['authorization', 'cookie', 'proxy-authorization'])

/** In lower case. */
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

/** Each header has one meaning: read as two, a key could be shown as an open attribute. */
export class HeaderNames {
  readonly #fieldByName = new Map<string, string>()

  read(located: Located): string | undefined {
    const name = readHeaderName(located)
    return name === undefined || !this.take(name, located) ? undefined : name
  }

  /** Whether nothing else is read from it; told of if it is. Also for defaults. */
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
