/**
 * kill -9 at random moments while rules are written and journals compacted: afterwards the store
 * has the last confirmed version or the one after it, complete, and never anything else.
 */
import { randomInt } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseData } from '@sluice/core'
import { afterEach, expect, test } from 'vitest'
import { collect, readAll } from '../packages/server/src/rules/store/conformance-kit.test-helper.js'
import type { Change } from '../packages/server/src/rules/store/records.js'
import { openFileStore } from '../packages/server/src/rules/store/file/file-store.js'
import type { RuleStore } from '../packages/server/src/rules/store/rule-store.js'
import { readHead } from '../packages/server/src/rules/store/file/rules-yaml-format.js'
import { makeFolder, startProgram, stopAll, waitFor } from './process.test-helper.js'

const FIXTURE = fileURLToPath(new URL('./rule-store-crash.fixture.mjs', import.meta.url))
const { changesOf } = (await import(FIXTURE)) as {
  readonly changesOf: (version: number) => readonly Change[]
}
const STORES = 20
const KILLS = 50

afterEach(stopAll)

/** The expected content of a store, version by version. */
class Model {
  readonly #records = new Map<string, unknown>()
  version = 1

  constructor(secret: unknown) {
    this.#records.set('secret main', secret)
  }

  advance(): void {
    this.version++
    for (const { kind, id, body } of changesOf(this.version)) {
      if (body === null) this.#records.delete(`${kind} ${id}`)
      else this.#records.set(`${kind} ${id}`, body)
    }
  }

  records(): ReadonlyMap<string, unknown> {
    return this.#records
  }

  /** The rules as in the generated rules.yaml. */
  rules(): readonly unknown[] {
    const set = this.#records.get('set main') as { order: string[] } | undefined
    return (set?.order ?? []).flatMap((id) => this.#records.get(`rule ${id}`) ?? [])
  }
}

interface Subject {
  readonly folder: string
  readonly model: Model
}

const clock = { now: () => Date.now() }

async function makeSubject(): Promise<Subject> {
  const folder = join(makeFolder(), 'rules')
  const store = await openFileStore({ folder, clock, release: 'test' })
  const { records } = await readAll(store)
  await store.close()
  return { folder, model: new Model(records[0]?.body) }
}

interface CrashCheck {
  /** The version in the store after the crash. */
  readonly version: number
  /** The oldest version available for rollback; 0 if all are. */
  readonly kept: number
}

async function check({ folder, model }: Subject, confirmed: number): Promise<CrashCheck> {
  const found = readFileSync(join(folder, 'rules.yaml'), 'utf8')
  const head = readHead(found)
  expect(head.isWhole).toBe(true)
  const store = await openFileStore({ folder, clock, release: 'test' })
  const { records, position } = await readAll(store)
  expect([confirmed, confirmed + 1]).toContain(position.version)
  await checkPast(store, position.version)
  expect(head.version).toBeLessThanOrEqual(position.version)
  expect(head.version).toBeGreaterThanOrEqual(model.version)
  const expectRules = (text: string) =>
    expect((parseData(text).value as { rules: unknown }).rules).toEqual(model.rules())
  if (head.version === model.version) expectRules(found)
  while (model.version < position.version) {
    model.advance()
    if (head.version === model.version) expectRules(found)
  }
  const state = new Map(records.map(({ kind, id, body }) => [`${kind} ${id}`, body]))
  expect(state).toEqual(model.records())
  const repaired = readFileSync(join(folder, 'rules.yaml'), 'utf8')
  expect(readHead(repaired)).toEqual({ version: position.version, isWhole: true })
  expectRules(repaired)
  const names = readdirSync(folder).filter((name) => name !== 'journal.jsonl.torn')
  expect(names.map((name) => name.replace(/\d+$/, 'N')).toSorted()).toEqual([
    'journal.jsonl',
    'lock.N',
    'rules.yaml',
  ])
  const { keptSince: kept = 0 } = store.status()
  await store.close()
  return { version: position.version, kept }
}

/** Every version since the oldest one kept is listed and available for rollback. */
async function checkPast(store: RuleStore, version: number): Promise<void> {
  const { keptSince = 0 } = store.status()
  const past = await store.history({ limit: version })
  expect(past.map((one) => one.version)).toEqual(
    Array.from({ length: version - keptSince }, (_, index) => version - index),
  )
  const changes = await collect(store.changesAfter(Math.max(keptSince, 1)))
  const counted = past.filter((one) => one.version > 1).map(({ changeCount }) => changeCount)
  expect(changes).toHaveLength(counted.reduce((sum, count) => sum + count, 0))
}

test(`kill -9 during ${STORES * KILLS} writes leaves the old version or the new one`, async () => {
  const seed = randomInt(2 ** 31)
  const random = seeded(seed)
  const subjects = await Promise.all(Array.from({ length: STORES }, makeSubject))
  let versions = 0
  let unconfirmed = 0
  let compacted = 0
  const keptSince = new Map<string, number>()
  try {
    for (let kill = 0; kill < KILLS; kill++) {
      const args = [FIXTURE, ...subjects.map(({ folder }) => folder)]
      const program = startProgram(process.execPath, args, { cwd: makeFolder() })
      // Some are killed while they open, most while they write: after a number of versions, not
      // after a time in which a busy machine might have written none.
      const written = 1 + Math.floor(random() * 4 * STORES)
      if (random() < 0.1) await sleep(100 + random() * 100)
      else await waitFor(program, () => program.output().split('\n').length > written)
      await sleep(random() * (random() < 0.2 ? 250 : 40))
      await program.stop()
      const text = program.output()
      const checked = subjects.map(async (subject, index) => {
        const before = subject.model.version
        const confirmed = lastConfirmed(text, index) ?? before
        const { version, kept } = await check(subject, confirmed)
        if (kept !== (keptSince.get(subject.folder) ?? 0)) compacted++
        keptSince.set(subject.folder, kept)
        versions += version - before
        unconfirmed += version - confirmed
      })
      await Promise.all(checked)
    }
  } catch (error) {
    throw new Error(`with seed ${seed}: ${String(error)}`, { cause: error })
  }
  // Otherwise no kill could have interrupted a compaction.
  expect(compacted).toBeGreaterThan(STORES)
  // Otherwise the kills came when nothing was being written.
  expect(versions).toBeGreaterThan(STORES * KILLS)
  expect(unconfirmed).toBeGreaterThan(0)
}, 600_000)

function lastConfirmed(output: string, index: number): number | undefined {
  const text = [...output.matchAll(new RegExp(`^${index} (\\d+)$`, 'gm'))].at(-1)?.[1]
  return text === undefined ? undefined : Number(text)
}

/** Pseudorandom numbers from 0 to 1, reproducible by seed. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
