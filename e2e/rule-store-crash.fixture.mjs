/**
 * Writes versions into several rule stores until it is killed, and reports each confirmed version.
 * The crash test runs it; both derive the changes of a version with `changesOf`.
 */
import { writeSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { openFileStore } from '../packages/server/dist/rules/store/file/file-store.js'

const STDOUT = 1
const KEYS = 60

export function changesOf(version) {
  const id = `rule-${version % 4}`
  const isGone = version % 7 === 0
  const body = { id, limits: [`${version}/second`], description: 'x'.repeat(version % 50) }
  const order = [0, 1, 2, 3].map((n) => `rule-${(n + version) % 4}`)
  return [
    { kind: 'rule', id, body: isGone ? null : body },
    { kind: 'set', id: 'main', body: { routes: [], strictPaths: false, order } },
    ...keysOf(version),
  ]
}

/** Occasionally lines of several disk pages. */
function keysOf(version) {
  const turn = version % 10
  if (turn !== 0 && turn !== 5) return []
  const body = { hash: String(version).padStart(64, '0'), state: 'active', createdAt: '' }
  return Array.from({ length: KEYS }, (_, n) => ({
    kind: 'key',
    id: `key-${n}`,
    body: turn === 5 ? null : body,
  }))
}

async function run(folder, index) {
  const clock = { now: () => Date.now() }
  // The journal is compacted every ten versions or so, so that some kills interrupt a compaction.
  const history = { versions: 10 }
  const store = await openFileStore({
    folder,
    clock,
    release: 'crash',
    history,
    garbageBytesMin: 1,
  })
  let base = 0
  for await (const { position } of store.read(undefined)) base = position?.version ?? base
  for (;;) {
    const commit = { base, by: 'crash', why: undefined, changes: changesOf(base + 1) }
    base = (await store.commit(commit)).version
    writeSync(STDOUT, `${index} ${base}\n`)
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await Promise.all(process.argv.slice(2).map(run))
}
