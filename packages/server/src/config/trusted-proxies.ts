/** Parses the list of proxies whose headers about the client are trusted. */
import { type Cidr, parseTrustedProxies } from '@sluice/core'
import {
  reportAt,
  reportProblemAt,
  isWithin,
  itemsOf,
  readList,
  readText,
  type Located,
} from '@sluice/core/config-reader'

const PROXIES = { items: 'networks', most: 1000 }

export function readTrustedProxies(located: Located): readonly Cidr[] | undefined {
  const list = readList(located, PROXIES)
  return list === undefined ? undefined : readProxies(located, itemsOf(list))
}

/** Undefined if one entry is invalid, since the list is then incomplete. */
export function readProxies(
  list: Located,
  locatedItems: readonly Located[],
): readonly Cidr[] | undefined {
  if (!isWithin(list, locatedItems.length, PROXIES)) return undefined
  const cidrs = new Map<string, Cidr>()
  let isGood = true
  for (const located of locatedItems) {
    const cidr = readProxy(located)
    if (cidr === undefined) isGood = false
    else if (cidrs.has(cidr.text)) {
      reportAt(located, 'duplicate-value', { accepted: 'each network once' })
    } else cidrs.set(cidr.text, cidr)
  }
  return isGood ? [...cidrs.values()] : undefined
}

function readProxy(located: Located): Cidr | undefined {
  const accepted = 'a network such as 10.0.0.0/8'
  const text = readText(located, { accepted, most: Number.POSITIVE_INFINITY })
  if (text === undefined) return undefined
  const { cidrs, problems } = parseTrustedProxies([text])
  for (const problem of problems) reportProblemAt(located, 'bad-cidr', problem)
  return cidrs[0]
}
