/** Parses `gateway.cors`: which pages may read the responses that the gateway makes itself. */
import {
  type Located,
  readBoolean,
  readRequired,
  readText,
  reportAt,
} from '@sluice/core/config-reader'
import type { CorsConfig } from './config.js'
import { readExplicit, readFields } from './fields.js'
import { readItems } from './values.js'

const ORIGINS = { items: 'origins', most: 1000 }
const ORIGIN_LENGTH_MAX = 256
const ACCEPTED_ORIGIN =
  'an origin as browsers send it: scheme, host and a port that is not the default, in small ' +
  'letters, such as https://app.example.com'
const ACCEPTED_ORIGINS = `"*" for every page, or a list of origins such as https://app.example.com`
/** Also those of extensions and of applications in a web view, such as `capacitor://localhost`. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\s]+$/

export function readCors(located: Located): CorsConfig | undefined {
  const map = readFields(located, ['origins', 'credentials'])
  if (map === undefined) return undefined
  const origins = readRequired(map, 'origins', { accepted: ACCEPTED_ORIGINS, read: readOrigins })
  const credentials = readExplicit(map, 'credentials', readBoolean)
  if (origins === undefined) return undefined
  if (origins === '*' && credentials?.value === true) {
    // Browsers refuse this pair, and every page could act for the user of a browser.
    return reportAt(credentials.located, 'bad-value', {
      found: 'true beside origins "*"',
      accepted: 'false, or a list of origins',
    })
  }
  return { origins, credentials: credentials?.value ?? false }
}

function readOrigins(located: Located): CorsConfig['origins'] | undefined {
  const { node } = located
  if (node.kind === 'scalar' && node.value === '*') return '*'
  if (node.kind !== 'list') return reportAt(located, 'wrong-type', { accepted: ACCEPTED_ORIGINS })
  const origins = new Set<string>()
  const items = readItems(located, ORIGINS, (item) => {
    const origin = readOrigin(item)
    if (origin === undefined) return undefined
    if (origins.has(origin)) {
      return reportAt(item, 'duplicate-value', { accepted: 'each origin once' })
    }
    origins.add(origin)
    return origin
  })
  return items === undefined ? undefined : origins
}

function readOrigin(located: Located): string | undefined {
  const text = readText(located, { accepted: ACCEPTED_ORIGIN, most: ORIGIN_LENGTH_MAX })
  if (text === undefined) return undefined
  const isWeb = /^https?:/i.test(text)
  const web = isWeb && URL.canParse(text) ? new URL(text).origin : undefined
  if (isWeb ? web === text : ORIGIN.test(text)) return text
  const suggestion = web === undefined ? {} : { suggestion: web }
  return reportAt(located, 'bad-value', { accepted: ACCEPTED_ORIGIN, ...suggestion })
}
