/** Parses `ring`: the nodes that hold the counters in their memory, each a part. */
import {
  fieldOf,
  type Located,
  type MapNode,
  readOptional,
  readText,
  reportAt,
} from '@sluice/core/config-reader'
import { DEFAULT_DEADLINE_MS } from '@sluice/limiter/redis'
import { isLoopback } from '../lib/loopback.js'
import { readClientTls, requirePair } from './client-tls.js'
import type { ListenAddress, RingConfig, RingPeers } from './config.js'
import type { Overrides } from './environment.js'
import { readExplicit, readFields, type Setting, resolveSetting } from './fields.js'
import { formatListen, parseListen, readListen } from './listen.js'
import { readDuration, readFileName, readItems } from './values.js'

const FIELDS: readonly string[] = ['listen', 'advertise', 'peers', 'deadline', 'tls']
const DEADLINE = { least: '1ms', most: '10s' }
const PEERS_LENGTH_MAX = 4096
/** The most members of a ring. */
const MEMBERS_MAX = 1000
const UNSPECIFIED: readonly string[] = ['0.0.0.0', '::']
const ACCEPTED_PEERS =
  'dns:host:port, srv:name, file:path, or addresses host:port, the same on all nodes'

interface RingSources {
  readonly folder: string
  readonly overrides: Overrides
  readonly redisUrl: Setting<string | undefined>
  readonly workers: Setting<number>
}

/** Undefined if no ring is configured. */
export function readRing(root: Located<MapNode>, sources: RingSources): RingConfig | undefined {
  const { folder, overrides } = sources
  const section = fieldOf(root, 'ring')
  const map = section && readFields(section, FIELDS)
  const read = <Value>(name: string, reader: (located: Located) => Value | undefined) =>
    map && readExplicit(map, name, reader)
  const own = read('listen', readListen)
  const listen = resolveSetting<ListenAddress | undefined>(overrides.ringListen, own, undefined)
  const fromFile = read('peers', (located) => readPeers(located, folder))
  const peers = resolveSetting<RingPeers | undefined>(overrides.ringPeers, fromFile, undefined)
  const advertise = map && readOptional(map, 'advertise', readListen)
  const deadline = read('deadline', (located) => readDuration(located, DEADLINE))
  const tls = map && readOptional(map, 'tls', (field) => readRingTls(field, folder))
  const place = section ?? listen.located ?? peers.located
  if (place === undefined) return undefined
  requireSettings(place, sources, { listen, peers })
  if (listen.value === undefined || peers.value === undefined) return undefined
  requireAddress(listen.located ?? place, listen.value, { advertise, tls })
  return {
    listen: listen.value,
    advertise: advertise ?? listen.value,
    peers: peers.value,
    deadlineMs: resolveSetting(overrides.storeDeadlineMs, deadline, DEFAULT_DEADLINE_MS).value,
    tls,
  }
}

/** Reads where the list of members is: one text, or the addresses themselves. */
export function readPeers(located: Located, folder: string): RingPeers | undefined {
  if (located.node.kind === 'list') {
    const shape = { items: 'addresses host:port', most: MEMBERS_MAX }
    const addresses = readItems(located, shape, readPeer)
    return addresses && { kind: 'list', addresses }
  }
  const text = readText(located, { accepted: ACCEPTED_PEERS, most: PEERS_LENGTH_MAX })
  if (text === undefined) return undefined
  const [kind, ...others] = text.split(':')
  const rest = others.join(':')
  if (kind === 'file' && rest !== '') {
    const path = readFileName(
      { ...located, node: { kind: 'scalar', at: located.node.at, value: rest } },
      folder,
    )
    return path === undefined ? undefined : { kind, path }
  }
  const address = kind === 'dns' ? parseListen(rest) : undefined
  if (kind === 'dns' && address !== undefined && address.port > 0) return { kind, ...address }
  if (kind === 'srv' && /^[a-z0-9_.-]{1,253}$/i.test(rest)) return { kind, name: rest }
  const texts = text.split(',')
  const addresses = texts.flatMap((each) => parseListen(each.trim()) ?? [])
  if (addresses.length === texts.length && addresses.every(({ port }) => port > 0)) {
    return { kind: 'list', addresses }
  }
  return reportAt(located, 'bad-value', { accepted: ACCEPTED_PEERS })
}

function readPeer(located: Located): ListenAddress | undefined {
  const address = readListen(located)
  if (address === undefined || address.port > 0) return address
  return reportAt(located, 'bad-value', { accepted: 'host:port with a port from 1 to 65535' })
}

/** All three files, because each member proves to the other that it is one. */
function readRingTls(located: Located, folder: string): RingConfig['tls'] {
  const read = readClientTls(located, { folder, peer: 'a member' })
  if (read === undefined) return undefined
  requirePair(read)
  const { ca, cert, key } = read.files
  if (ca !== undefined && cert !== undefined && key !== undefined) return { ca, cert, key }
  return reportAt(located, 'bad-value', {
    accepted: 'ca, cert and key: members accept only certificates of the ring’s own authority',
  })
}

function requireSettings(
  place: Located,
  { redisUrl, workers, overrides }: RingSources,
  { listen, peers }: Record<'listen' | 'peers', Setting<unknown>>,
): void {
  const missing = (field: string, accepted: string) =>
    reportAt(place, 'bad-value', { found: `no ${field}`, accepted })
  if (listen.isRead && listen.value === undefined) {
    missing('ring.listen', 'where the other nodes reach this one, here or in SLUICE_RING_LISTEN')
  }
  if (peers.isRead && peers.value === undefined) {
    missing('ring.peers', `${ACCEPTED_PEERS}, here or in SLUICE_RING_PEERS`)
  }
  if (overrides.keySecret === undefined) {
    const why = 'with another one each would count the same callers under other names'
    missing('SLUICE_KEY_SECRET', `the same secret on all nodes of a ring: ${why}`)
  }
  if (redisUrl.value !== undefined) {
    const accepted = 'Redis or a ring; with Redis no ring is needed'
    reportAt(place, 'bad-value', { found: 'a ring beside Redis', accepted })
  }
  if (workers.value > 1) {
    const accepted = 'workers: 1 beside a ring; start more nodes instead'
    reportAt(workers.located ?? place, 'bad-value', { accepted })
  }
}

function requireAddress(
  located: Located,
  listen: ListenAddress,
  {
    advertise,
    tls,
  }: { readonly advertise: ListenAddress | undefined; readonly tls: RingConfig['tls'] },
): void {
  if (listen.port === 0) {
    reportAt(located, 'bad-value', { accepted: 'a port from 1 to 65535, as the list names it' })
  } else if (UNSPECIFIED.includes(listen.host) && advertise === undefined) {
    reportAt(located, 'bad-value', {
      accepted: `an address of this node, or ring.advertise beside ${formatListen(listen)}`,
    })
  } else if (!isLoopback(listen.host) && tls === undefined) {
    reportAt(located, 'bad-value', {
      accepted:
        'a loopback address; without ring.tls only loopback is allowed: ' +
        'whoever can connect could charge and reset every counter',
    })
  }
}
