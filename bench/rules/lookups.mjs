/**
 * What 100,000 overrides and a million known keys cost a call: the same decisions and the same
 * lookups with and without them.
 */
import { createHash } from 'node:crypto'
import {
  KnownKeys,
  RegisteredKeys,
} from '../../packages/server/dist/identity/api-keys/known-keys.js'
import { keyHash, keyId, sha256Of } from '../../packages/server/dist/rules/store/key-hash.js'
import { createLimiter } from '../../packages/limiter/dist/index.js'
import { median, printTable } from '../report.mjs'

const CALLS = 300_000
const ROUNDS = 7
const OVERRIDES = 100_000
const KEYS = process.argv.includes('--quick') ? 100_000 : 1_000_000
const SECRET = '5a'.repeat(32)

const LIMIT = { algorithm: 'fixed-window', max: 1_000_000_000, window: '1h', name: 'hourly' }
const RULES = [{ id: 'per-user', by: ['user'], limits: [LIMIT] }]

function limiterWith(count) {
  const limiter = createLimiter({ rules: RULES })
  const own = {
    algorithm: 'fixed-window',
    max: 2_000_000_000,
    windowMs: 3_600_000,
    name: 'hourly',
  }
  limiter.changeOverrides(
    Array.from({ length: count }, (_, i) => {
      const caller = new Map([['user', `u${i}`]])
      return {
        rule: 'per-user',
        caller,
        override: { caller, limits: [own], untilMs: undefined },
      }
    }),
  )
  return limiter
}

const callsOf = (prefix) =>
  Array.from({ length: 5000 }, (_, i) => ({ attributes: { user: `${prefix}${i * 20}` } }))

const deciding = [
  { name: 'no overrides', limiter: limiterWith(0), calls: callsOf('u'), times: [] },
  { name: '100,000, of others', limiter: limiterWith(OVERRIDES), calls: callsOf('v'), times: [] },
  {
    name: '100,000, of the callers',
    limiter: limiterWith(OVERRIDES),
    calls: callsOf('u'),
    times: [],
  },
]

const ADDRESS_RULES = [{ id: 'per-address', by: ['ip'], limits: [LIMIT] }]

/** A network of each of these lengths for every caller in the calls, or for none of them. */
function limiterOfNetworks(lengths, first = 10) {
  const limiter = createLimiter({ rules: ADDRESS_RULES })
  const limits = [{ ...LIMIT, max: 2_000_000_000, windowMs: 3_600_000 }]
  limiter.changeOverrides(
    lengths.map((bits) => {
      const caller = new Map([['ip', `${first}.0.0.0/${bits}`]])
      return { rule: 'per-address', caller, override: { caller, limits, untilMs: undefined } }
    }),
  )
  return limiter
}

const addresses = Array.from({ length: 5000 }, (_, i) => ({
  attributes: { ip: `10.0.${i >> 8}.${i & 255}` },
}))
const LENGTHS = [8, 12, 15, 16]
const networks = [
  { name: 'no overrides', limiter: limiterOfNetworks([]), times: [] },
  { name: 'a network elsewhere', limiter: limiterOfNetworks([8], 11), times: [] },
  { name: 'a network of the callers', limiter: limiterOfNetworks([8]), times: [] },
  { name: 'four lengths, elsewhere', limiter: limiterOfNetworks(LENGTHS, 12), times: [] },
]

function time(list, run) {
  const started = process.hrtime.bigint()
  for (let i = 0; i < CALLS; i++) run(list[i % list.length])
  return Number(process.hrtime.bigint() - started) / CALLS
}

function knownWith(count) {
  const registered = new RegisteredKeys()
  registered.begin()
  for (let i = 0; i < count; i++) {
    const hash = keyHash(SECRET, sha256Of(`key-number-${i}`))
    const body = { hash, user: `u${i}`, plan: 'pro', state: 'active', createdAt: '' }
    registered.receive([{ kind: 'key', id: keyId(hash), version: 1, body }])
  }
  registered.end(SECRET)
  return new KnownKeys([], registered)
}

const heapBefore = memory()
const million = knownWith(KEYS)
const bytes = (memory() - heapBefore) / KEYS
const texts = Array.from({ length: 5000 }, (_, i) => `key-number-${i * (KEYS / 5000)}`)
const few = Array.from({ length: 10 }, (_, i) => `key-number-${i}`)
const finding = [
  {
    name: 'SHA-256 of the key alone',
    run: (text) => createHash('sha256').update(text).digest('hex'),
    keys: texts,
    times: [],
  },
  { name: '10 keys', known: knownWith(10), keys: few, times: [] },
  { name: `${KEYS.toLocaleString('en')} keys`, known: million, keys: texts, times: [] },
]

function memory() {
  globalThis.gc?.()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

for (let round = 0; round <= ROUNDS; round++) {
  for (const { limiter, calls, times } of deciding) {
    const took = time(calls, (call) => limiter.checkSync(call))
    if (round > 0) times.push(took)
  }
  for (const { limiter, times } of networks) {
    const took = time(addresses, (call) => limiter.checkSync(call))
    if (round > 0) times.push(took)
  }
  for (const { known, run, keys, times } of finding) {
    const took = time(keys, run ?? ((text) => known.find(text)))
    if (round > 0) times.push(took)
  }
}

const rowsOf = (subjects, base) =>
  subjects.map(({ name, times }) => [
    name,
    Math.round(median(times)),
    median(times.map((ns, round) => ns / base.times[round])).toFixed(2),
  ])

console.log(`A decision in memory, 5,000 callers, median of ${ROUNDS} alternating rounds\n`)
printTable(['overrides', 'ns', 'x none'], rowsOf(deciding, deciding[0]))
console.log('The same by address, with overrides of networks\n')
printTable(['overrides', 'ns', 'x none'], rowsOf(networks, networks[0]))
console.log('Finding the caller of an API key\n')
printTable(['known keys', 'ns', 'x 10 keys'], rowsOf(finding, finding[1]))
const note = globalThis.gc === undefined ? ' (with garbage: run with --expose-gc)' : ''
console.log(`${Math.round(bytes)} bytes of this process for each key${note}\n`)
