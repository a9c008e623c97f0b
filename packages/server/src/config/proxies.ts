/** The proxies whose word about the client is believed. */
import { type Cidr, parseTrustedProxies } from '@sluice/core'
import {
  complain,
  complainOf,
  isWithin,
  itemsOf,
  readList,
  readText,
  type Spot,
} from '@sluice/core/reading'

const PROXIES = { of: 'networks', most: 1000 }

export function readTrustedProxies(spot: Spot): readonly Cidr[] | undefined {
  const list = readList(spot, PROXIES)
  return list === undefined ? undefined : readProxies(spot, itemsOf(list))
}

/** Undefined if one of them is bad: nothing is then known of the whole. */
export function readProxies(whole: Spot, spots: readonly Spot[]): readonly Cidr[] | undefined {
  if (!isWithin(whole, spots.length, PROXIES)) return undefined
  const cidrs = new Map<string, Cidr>()
  let isGood = true
  for (const spot of spots) {
    const cidr = readProxy(spot)
    if (cidr === undefined) isGood = false
    else if (cidrs.has(cidr.text)) {
      complain(spot, 'duplicate-value', { accepted: 'each network once' })
    } else cidrs.set(cidr.text, cidr)
  }
  return isGood ? [...cidrs.values()] : undefined
}

function readProxy(spot: Spot): Cidr | undefined {
  const accepted = 'a network such as 10.0.0.0/8'
  const text = readText(spot, { accepted, most: Number.POSITIVE_INFINITY })
  if (text === undefined) return undefined
  const { cidrs, problems } = parseTrustedProxies([text])
  for (const problem of problems) complainOf(spot, 'bad-cidr', problem)
  return cidrs[0]
}
