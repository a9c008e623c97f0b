/** Parses a curl command into the attributes that rules use. */
import { isRecord } from '@sluice/core/text'
import { type ParsedCall, failure, parseCallObject } from './parse-call-object.js'
import { shellWords } from './shell-words.js'

/** curl options with a value that is irrelevant to rules. */
const WITH_VALUE =
  /^(?:-[AbcDeEFKmoPQrTUuwxyYzCh]|--(?:user-agent|cookie|cookie-jar|output|max-time|connect-timeout|user|proxy|cacert|cert|key|resolve|retry|write-out|referer|form|interface|limit-rate|unix-socket))$/
const DATA = /^(?:-d|--data(?:-raw|-binary|-ascii|-urlencode)?|--json)$/

interface CurlOptions {
  readonly method: string | undefined
  readonly url: string | undefined
  readonly headers: readonly string[]
  readonly data: string | undefined
}

export function parseCurl(text: string): ParsedCall {
  const options = parseOptions(shellWords(text.replace(/^\$\s+/, '')).slice(1))
  if (options.url === undefined) return failure('The curl command has no URL')
  const address = /^[a-z][a-z0-9+.-]*:\/\//i.test(options.url)
    ? options.url
    : `http://${options.url}`
  if (!URL.canParse(address))
    return failure(`${JSON.stringify(options.url.slice(0, 80))} is not a URL`)
  const { pathname } = new URL(address)
  const callInBody = /\/v1\/(?:check|peek|inspect)$/.test(pathname)
    ? parseBody(options.data)
    : undefined
  if (callInBody !== undefined) return callInBody
  const method = (options.method ?? (options.data === undefined ? 'GET' : 'POST')).toUpperCase()
  const { attributes, notes } = parseHeaders(options.headers)
  return { attributes: { method, path: pathname, ...attributes }, notes }
}

function parseOptions(words: readonly string[]): CurlOptions {
  const options = { headers: [] as string[] } as {
    method?: string
    url?: string
    headers: string[]
    data?: string
  }
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? ''
    const glued = /^(-[XHdA])(.+)$/s.exec(word)
    const equals = /^(--[a-z-]+)=(.*)$/s.exec(word)
    const [option, inline] = [glued?.[1] ?? equals?.[1] ?? word, glued?.[2] ?? equals?.[2]]
    const next = () => inline ?? words[++i] ?? ''
    if (option === '-X' || option === '--request') options.method = next()
    else if (option === '-H' || option === '--header') options.headers.push(next())
    else if (DATA.test(option)) options.data = next()
    else if (option === '-I' || option === '--head') options.method = 'HEAD'
    else if (option === '--url') options.url = next()
    else if (WITH_VALUE.test(option)) next()
    else if (!option.startsWith('-')) options.url ??= option
  }
  return { method: options.method, url: options.url, headers: options.headers, data: options.data }
}

/** A command that calls the decision API of Sluice has the attributes in its body. */
function parseBody(data: string | undefined): ParsedCall | undefined {
  try {
    const value: unknown = JSON.parse(data ?? '')
    return isRecord(value) && isRecord(value['attributes']) ? parseCallObject(value) : undefined
  } catch {
    return undefined
  }
}

function parseHeaders(headers: readonly string[]): Pick<ParsedCall, 'attributes' | 'notes'> {
  const attributes: Record<string, string> = {}
  const notes: string[] = []
  for (const header of headers) {
    const [, name = '', value = ''] = /^([^:]+):\s*(.*)$/s.exec(header) ?? []
    const key = name.toLowerCase()
    if (key === 'x-api-key' && value !== '') attributes['api_key'] = value
    else if (key === 'x-forwarded-for' && value !== '') {
      attributes['ip'] = value.split(',').at(-1)?.trim() ?? ''
      notes.push(
        'The ip is the last address in X-Forwarded-For, which the proxy nearest to Sluice added.',
      )
    } else if (key === 'authorization') {
      notes.push('Tokens are not decoded: add user=… and plan=… as the token has them.')
    }
  }
  if (attributes['ip'] === undefined)
    notes.push('A curl command does not contain the address of the caller: add ip=…')
  return { attributes, notes }
}
