/** The call that a command of curl makes, as far as rules look at it. */
import { isRecord } from '../rules/rule-text.js'
import { type Asked, failed, readObject } from './read-object.js'
import { shellWords } from './shell-words.js'

/** Options of curl with a value that says nothing about the call. */
const WITH_VALUE =
  /^(?:-[AbcDeEFKmoPQrTUuwxyYzCh]|--(?:user-agent|cookie|cookie-jar|output|max-time|connect-timeout|user|proxy|cacert|cert|key|resolve|retry|write-out|referer|form|interface|limit-rate|unix-socket))$/
const DATA = /^(?:-d|--data(?:-raw|-binary|-ascii|-urlencode)?|--json)$/

interface Told {
  readonly method: string | undefined
  readonly url: string | undefined
  readonly headers: readonly string[]
  readonly data: string | undefined
}

export function readCurl(text: string): Asked {
  const told = readOptions(shellWords(text.replace(/^\$\s+/, '')).slice(1))
  if (told.url === undefined) return failed('found a curl command without an address')
  const address = /^[a-z][a-z0-9+.-]*:\/\//i.test(told.url) ? told.url : `http://${told.url}`
  if (!URL.canParse(address))
    return failed(`found ${JSON.stringify(told.url.slice(0, 80))} as the address`)
  const { pathname } = new URL(address)
  const asked = /\/v1\/(?:check|peek|inspect)$/.test(pathname) ? bodyOf(told.data) : undefined
  if (asked !== undefined) return asked
  const method = (told.method ?? (told.data === undefined ? 'GET' : 'POST')).toUpperCase()
  const { attributes, notes } = readHeaders(told.headers)
  return { attributes: { method, path: pathname, ...attributes }, notes }
}

function readOptions(words: readonly string[]): Told {
  const told = { headers: [] as string[] } as {
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
    if (option === '-X' || option === '--request') told.method = next()
    else if (option === '-H' || option === '--header') told.headers.push(next())
    else if (DATA.test(option)) told.data = next()
    else if (option === '-I' || option === '--head') told.method = 'HEAD'
    else if (option === '--url') told.url = next()
    else if (WITH_VALUE.test(option)) next()
    else if (!option.startsWith('-')) told.url ??= option
  }
  return { method: told.method, url: told.url, headers: told.headers, data: told.data }
}

/** A command that asks Sluice itself has the attributes in its body. */
function bodyOf(data: string | undefined): Asked | undefined {
  try {
    const value: unknown = JSON.parse(data ?? '')
    return isRecord(value) && isRecord(value['attributes']) ? readObject(value) : undefined
  } catch {
    return undefined
  }
}

function readHeaders(headers: readonly string[]): Pick<Asked, 'attributes' | 'notes'> {
  const attributes: Record<string, string> = {}
  const notes: string[] = []
  for (const header of headers) {
    const [, name = '', value = ''] = /^([^:]+):\s*(.*)$/s.exec(header) ?? []
    const key = name.toLowerCase()
    if (key === 'x-api-key' && value !== '') attributes['api_key'] = value
    else if (key === 'x-forwarded-for' && value !== '') {
      attributes['ip'] = value.split(',').at(-1)?.trim() ?? ''
      notes.push(
        'The address is the last of X-Forwarded-For, which the proxy nearest to Sluice wrote.',
      )
    } else if (key === 'authorization') {
      notes.push('A token is not looked into here: add user=… and plan=… as it names them.')
    }
  }
  if (attributes['ip'] === undefined)
    notes.push('The address of the caller is not part of a command: add ip=…')
  return { attributes, notes }
}
