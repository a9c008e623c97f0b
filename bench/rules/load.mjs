/**
 * How long a node takes to start with 10,000 rules, 100,000 overrides and a million known keys:
 * from files, and from Postgres where `--database postgres://...` names an empty database to fill.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLimiter } from '../../packages/limiter/dist/index.js'
import { RegisteredKeys } from '../../packages/server/dist/identity/api-keys/known-keys.js'
import { openFileStore } from '../../packages/server/dist/rules/store/file/file-store.js'
import { keyHash, keyId, sha256Of } from '../../packages/server/dist/rules/store/key-hash.js'
import { openPostgresStore } from '../../packages/server/dist/rules/store/postgres/postgres-store.js'
import { openLastKnownGood } from '../../packages/server/dist/rules/sync/last-known-good/last-known-good.js'
import { followStore } from '../../packages/server/dist/rules/sync/rule-store-follower.js'
import { printTable } from '../report.mjs'

const isQuick = process.argv.includes('--quick')
const RULES = isQuick ? 1000 : 10_000
const OVERRIDES = isQuick ? 10_000 : 100_000
const KEYS = isQuick ? 100_000 : 1_000_000
const AT_ONCE = 10_000

const quiet = () => {}
const log = { debug: quiet, info: quiet, warn: quiet, error: console.error, offer: () => true }
const clock = { now: () => Date.now() }
const node = { id: 'bench', host: 'bench', pid: process.pid, release: '0', startedAt: '' }

function* changes(secret) {
  const ids = Array.from({ length: RULES }, (_, i) => `rule-${i}`)
  yield { kind: 'set', id: 'main', body: { routes: [], strictPaths: false, order: ids } }
  for (const [i, id] of ids.entries()) {
    const match = i % 2 === 0 ? { path: `/v1/p${i}/:id` } : { where: { tenant: `t${i}` } }
    yield { kind: 'rule', id, body: { id, match, by: ['user'], limits: ['100/minute'] } }
  }
  for (let i = 0; i < OVERRIDES; i++) {
    const body = { caller: { user: `u${i}` }, limits: [`${1 + (i % 50)}/second`] }
    yield { kind: 'override', id: `rule-0/user=u${i}`, body }
  }
  for (let i = 0; i < KEYS; i++) {
    const hash = keyHash(secret, sha256Of(`key-number-${i}`))
    const createdAt = '2026-01-01T00:00:00.000Z'
    const body = { hash, user: `u${i}`, plan: 'pro', state: 'active', createdAt }
    yield { kind: 'key', id: keyId(hash), body }
  }
}

async function fill(store) {
  let secret = ''
  let version = 0
  for await (const { records, position } of store.read(undefined)) {
    secret = records.find(({ kind }) => kind === 'secret')?.body.secret ?? secret
    version = position?.version ?? version
  }
  let batch = []
  const commit = async () => {
    const position = await store.commit({
      base: version,
      by: 'bench',
      why: undefined,
      changes: batch,
    })
    version = position.version
    batch = []
  }
  for (const change of changes(secret)) {
    batch.push(change)
    if (batch.length === AT_ONCE) await commit()
  }
  if (batch.length > 0) await commit()
}

/** Until rules, overrides and keys are active. */
async function start(open, lastKnownGood) {
  const limiter = createLimiter({ rules: undefined })
  const keys = new RegisteredKeys()
  const began = performance.now()
  const source = await followStore({ store: await open(), limiter, keys, log, node, lastKnownGood })
  while (keys.size < KEYS || !source.isReady())
    await new Promise((resolve) => setTimeout(resolve, 20))
  const seconds = (performance.now() - began) / 1000
  const began2 = performance.now()
  const mib = process.memoryUsage().rss / 2 ** 20
  await source.close()
  return [seconds.toFixed(1), Math.round(mib), ((performance.now() - began2) / 1000).toFixed(1)]
}

const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
const rows = []
try {
  const openFiles = () => openFileStore({ folder: join(folder, 'rules'), clock, release: '0' })
  const files = await openFiles()
  await fill(files)
  await files.close()
  rows.push(['files', ...(await start(openFiles))])
  const at = process.argv.indexOf('--database')
  if (at !== -1) {
    const openDatabase = () =>
      openPostgresStore({ url: process.argv[at + 1], tls: undefined }, { log })
    const database = await openDatabase()
    await fill(database)
    await database.close()
    const copy = () => openLastKnownGood({ dataDir: folder, log, isKeeper: true })
    rows.push(['Postgres', ...(await start(openDatabase, copy()))])
    rows.push(['Postgres, with a last good copy', ...(await start(openDatabase, copy()))])
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
const much = [RULES, OVERRIDES, KEYS].map((count) => count.toLocaleString('en'))
console.log(`A start with ${much[0]} rules, ${much[1]} overrides, ${much[2]} keys\n`)
printTable(['rule store', 'seconds', 'MiB resident', 'to close, s'], rows)
