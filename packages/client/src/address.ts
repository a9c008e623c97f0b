/** Checks the address of an API before a token is sent there. */
import { InputError } from './errors.js'

const SHOWN_MAX = 200
const TOKEN = /^[\x21-\x7e]{1,4096}$/
const LOOPBACK = /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|\[::1\])$/

export interface Address {
  readonly url: string
  readonly token?: string | undefined
  readonly insecure?: boolean | undefined
}

/** The base URL, without a trailing slash. */
export function readAddress(
  { url, token, insecure = false }: Address,
  example = 'http://127.0.0.1:9090',
): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined || !['http:', 'https:'].includes(parsed.protocol)) {
    throw new InputError(
      `url: found ${quote(url)}; accepted: http:// or https:// and a host, as in ${example}`,
    )
  }
  if (parsed.username !== '' || parsed.password !== '') {
    throw new InputError(
      'url: found a user or password in it; accepted: a URL without, and a token',
    )
  }
  if (parsed.search !== '' || parsed.hash !== '') {
    throw new InputError(`url: found ${quote(url)}; accepted: a URL without query and fragment`)
  }
  if (token !== undefined && typeof token !== 'string') {
    throw new InputError(
      `token: found ${token === null ? 'null' : typeof token}; accepted: text, or undefined for none`,
    )
  }
  if (token !== undefined && !TOKEN.test(token)) {
    // The error does not show the value: a misspelled token is still a secret.
    throw new InputError(
      `token: found ${token.length} characters that no header can carry; accepted: 1 to 4,096 of visible ASCII`,
    )
  }
  if (token !== undefined && parsed.protocol === 'http:' && !insecure && !isLoopback(parsed)) {
    throw new InputError(
      `url: found ${quote(parsed.origin)}, where anybody on the way could read the token; accepted: https://, a loopback address, or \`insecure\``,
    )
  }
  return parsed.origin + parsed.pathname.replace(/\/+$/, '')
}

function isLoopback({ hostname }: URL): boolean {
  return LOOPBACK.test(hostname)
}

/** Of what is no text, such as a variable that is not set, the value itself. */
function quote(text: unknown): string {
  return typeof text === 'string' ? JSON.stringify(text.slice(0, SHOWN_MAX)) : String(text)
}

/** Encodes any text as one segment of a path. */
export function segment(what: string, text: string): string {
  // URL parsers resolve these segments, encoded or not, so they cannot be sent.
  if (text === '' || text === '.' || text === '..') {
    throw new InputError(`${what}: found ${quote(text)}; accepted: an id`)
  }
  return encode(what, text)
}

export function encode(what: string, text: string): string {
  try {
    return encodeURIComponent(text)
  } catch {
    // A lone surrogate has no form in a URL.
    throw new InputError(`${what}: found ${quote(text)}; accepted: text that is whole`)
  }
}
