/** Three nodes in this process, with every posture side by side, and the calls to them. */
import { createLimiter, type Decision, type Limiter } from '@sluice/limiter'
import {
  DEFAULT_DEADLINE_MS,
  type RedisStore,
  type RedisStoreOptions,
  redisStore,
} from '@sluice/limiter/redis'
import type { Ledger } from './fault-ledger.test-helper.js'

/** The default deadline. */
export const DEADLINE_MS = DEFAULT_DEADLINE_MS
export const NODES = 3
/** The limit of callers that exceed it. */
export const TIGHT_MAX = 6
const FREE_MAX = 1_000_000

type PostureName = 'open' | 'closed' | 'local'

/** A kind of call, which matches one rule of its own by default. */
export interface Kind {
  readonly name: string
  /** Undefined if it matches a shadow rule, which never refuses. */
  readonly posture: PostureName | undefined
  /** Whether its callers exceed their limit. */
  readonly isTight: boolean
  /** The postures of its rules, which decide if the store does not answer. */
  readonly postures: Readonly<Record<string, PostureName>>
}

const POSTURES = ['open', 'closed', 'local', undefined] as const

const kindOf = (posture: PostureName | undefined, isTight: boolean): Kind => {
  const name = `${isTight ? 'tight' : 'free'}-${posture ?? 'shadow'}`
  return { name, posture, isTight, postures: posture === undefined ? {} : { [name]: posture } }
}

export const KINDS: readonly Kind[] = [
  ...POSTURES.map((posture) => kindOf(posture, false)),
  ...POSTURES.map((posture) => kindOf(posture, true)),
  // Two rules by different attributes, and a shadow: charged together or not at all.
  {
    name: 'mixed',
    posture: 'closed',
    isTight: false,
    postures: { 'mixed-user': 'closed', 'mixed-ip': 'open' },
  },
]

/** A window that does not end during the test, so that stored units can be counted. */
const windowOf = (max: number) => [
  { algorithm: 'fixed-window', max, window: '366d', name: 'all' } as const,
]

const RULES = [
  ...KINDS.filter(({ name }) => name !== 'mixed').map(({ name, posture, isTight }) => ({
    id: name,
    match: { where: { kind: [name] } },
    by: ['user'],
    limits: windowOf(isTight ? TIGHT_MAX : FREE_MAX),
    ...(posture === undefined ? { mode: 'shadow' } : { posture }),
  })),
  ...[
    { id: 'mixed-user', by: ['user'], posture: 'closed' },
    { id: 'mixed-ip', by: ['ip'], posture: 'open' },
    { id: 'mixed-shadow', by: ['user'], mode: 'shadow' },
  ].map((rule) => ({ ...rule, match: { where: { kind: ['mixed'] } }, limits: windowOf(FREE_MAX) })),
]

export function callOf(kind: Kind, user: number) {
  const name = String(user)
  const ip = kind.name === 'mixed' ? { ip: `10.0.0.${user % 256}` } : {}
  return { attributes: { kind: kind.name, user: name, ...ip } }
}

/** Whether a decision is one that the rules of its call allow. */
export function isRight(kind: Kind, decision: Decision): boolean {
  const { source, allowed, postures, reason } = decision
  if (kind.posture === undefined) return allowed
  if (source !== 'posture') return postures === undefined && reason !== 'posture'
  const entries = Object.entries(postures ?? {})
  const isKnown = entries.every(([rule, posture]) => kind.postures[rule] === posture)
  if (entries.length === 0 || !isKnown) return false
  const isClosed = entries.some(([, posture]) => posture === 'closed')
  // A share may be used up; the other two postures decide the same for every caller.
  const isFree = entries.some(([, posture]) => posture === 'local')
  return isFree || allowed === !isClosed
}

/** The events of the stores of all nodes. */
interface StoreEvents {
  readonly errors: Map<string, number>
  readonly problems: Set<string>
  /** When a breaker opened or closed, and for which node. */
  readonly breakers: { readonly node: number; readonly isOpen: boolean; readonly atMs: number }[]
}

export interface Nodes {
  readonly limiters: readonly Limiter[]
  readonly stores: readonly RedisStore[]
  readonly events: StoreEvents
  close(): Promise<void>
}

export interface NodesOptions {
  /** One for all, or one for each node. */
  readonly urls: readonly string[]
  readonly ledger: Ledger
  readonly store?: Partial<RedisStoreOptions> | undefined
}

/** `npm run test:faults -- <times> <client>` uses another client than the default. */
const CLIENT = process.env['SLUICE_CLIENT'] as RedisStoreOptions['client']

/** The offsets of the nodes' clocks, which do not matter: only the store's counts. */
const WALL_OFFSETS_US = [0, 5_000_000, -5_000_000]

export async function openNodes({ urls, ledger, store: options }: NodesOptions): Promise<Nodes> {
  const events: StoreEvents = { errors: new Map(), problems: new Set(), breakers: [] }
  const stores: RedisStore[] = []
  const limiters: Limiter[] = []
  for (let node = 0; node < NODES; node++) {
    const url = urls[node % urls.length] ?? ''
    const breaker = (isOpen: boolean) => () => {
      events.breakers.push({ node, isOpen, atMs: performance.now() })
    }
    const observer = {
      error: (code: string) => {
        events.errors.set(code, (events.errors.get(code) ?? 0) + 1)
      },
      problem: (problem: string) => {
        events.problems.add(problem)
      },
      breakerOpened: breaker(true),
      breakerClosed: breaker(false),
    }
    const store = redisStore({ url, observer, client: CLIENT, ...options })
    const offset = WALL_OFFSETS_US[node] ?? 0
    const clock = { now: () => Date.now() * 1000 + offset }
    stores.push(store)
    limiters.push(createLimiter({ rules: RULES, store: ledger.watch(store), clock }))
  }
  const close = async () => {
    await Promise.all(limiters.map((limiter) => limiter.close()))
  }
  try {
    await Promise.all(stores.map((store) => store.ready))
    await Promise.all(limiters.map((limiter) => limiter.ready()))
    await waitForFleet(stores)
  } catch (error) {
    await close()
    throw error
  }
  return { limiters, stores, events, close }
}

/** A local share depends on the size of the fleet, which nodes know after a heartbeat or two. */
async function waitForFleet(stores: readonly RedisStore[]): Promise<void> {
  const until = performance.now() + 10_000
  while (stores.some((store) => store.stats().fleet.size !== NODES)) {
    if (performance.now() > until) throw new Error(`The fleet is not ${NODES} after 10 s`)
    await new Promise((resolve) => {
      setTimeout(resolve, 20)
    })
  }
}
