/**
 * How large the journal of the embedded rule store is after many changes of rules, and how long it
 * takes to open, before it is compacted and after. After `npm run build`:
 *
 *     node bench/rules/journal.mjs [changes]
 */
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, statSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { firstEntry } from '../../packages/server/dist/rules/store/version-entry.js'
import { openFileStore } from '../../packages/server/dist/rules/store/file/file-store.js'
import { encodeLine } from '../../packages/server/dist/rules/store/file/journal-line.js'

const RULES = 100
const OPENS = 3
const LOOK_EVERY_MS = 20
const LOOKS_MAX = 1000

const changes = Number(process.argv[2] ?? 300_000)
const home = mkdtempSync(join(tmpdir(), 'sluice-journal-'))
const folder = join(home, 'rules')
const journal = join(folder, 'journal.jsonl')
const clock = { now: () => Date.now() }

function writeJournal() {
  mkdirSync(folder, { mode: 0o700 })
  const file = openSync(journal, 'w', 0o600)
  const at = new Date().toISOString()
  const bodies = new Map()
  writeSync(file, encodeLine({ entry: firstEntry(at), batch: 1, holder: 1 }))
  for (let version = 2; version <= changes + 1; version++) {
    const id = `rule-${version % RULES}`
    const after = { id, by: ['user'], limits: [`${version}/minute`] }
    const change = { kind: 'rule', id, before: bodies.get(id) ?? null, after }
    bodies.set(id, after)
    const mark = version.toString(16).padStart(12, '0')
    const entry = { version, mark, at, by: 'ada', changes: [change] }
    writeSync(file, encodeLine({ entry, batch: version, holder: 1 }))
  }
  closeSync(file)
}

async function measure(state, history) {
  const started = performance.now()
  const store = await openFileStore({ folder, clock, release: 'bench', history })
  const ms = Math.round(performance.now() - started)
  console.log(`${state}: ${statSync(journal).size} bytes, opened in ${ms} ms`)
  return store
}

try {
  writeJournal()
  const all = { versions: changes + 1 }
  for (let opens = 0; opens < OPENS; opens++) await (await measure('whole', all)).close()
  const store = await measure('whole, to be compacted')
  for (let looks = 0; looks < LOOKS_MAX && store.status().keptSince === undefined; looks++) {
    await sleep(LOOK_EVERY_MS)
  }
  await store.close()
  for (let opens = 0; opens < OPENS; opens++) await (await measure('compacted')).close()
} finally {
  rmSync(home, { recursive: true, force: true })
}
