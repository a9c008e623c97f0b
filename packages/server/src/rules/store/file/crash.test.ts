/** Crashes of the process at any step, and of the machine, which loses unsynced data. */
import { appendFileSync, existsSync, statSync, truncateSync } from 'node:fs'
import { afterEach, expect, test } from 'vitest'
import { commit, key, readAll, rule, ruleBody, stateNow } from '../conformance-kit.test-helper.js'
import { type FileSystem, type OpenFile, realFileSystem } from './fs.js'
import { openFileStore } from './file-store.js'
import {
  closeStores,
  failingFileSystem,
  filesIn,
  lockOwner,
  makeRulesFolder,
  openStore,
  readRules,
} from './file-store.test-helper.js'
import { readHead } from './rules-yaml-format.js'

afterEach(closeStores)

interface Crash {
  /** The step that does not happen, counted from 1. */
  readonly atStep: number
  /** How much of a write still happens. */
  readonly part: number
  /** Whether what was not synced is gone. */
  readonly isPower: boolean
}

/** A disk that does nothing from a given step on. */
function crashingFileSystem({ atStep, part, isPower }: Crash) {
  let steps = 0
  let crash = () => undefined as void
  const crashed = new Promise<'crashed'>((resolve) => {
    crash = () => resolve('crashed')
  })
  const files = new Set<OpenFile>()
  const unsafe = new Map<string, number>()
  const inner = failingFileSystem((step, path, bytes) => {
    steps++
    if (steps < atStep) {
      note(step, path)
      return undefined
    }
    if (steps === atStep) {
      if (bytes !== undefined) appendFileSync(path, bytes.subarray(0, bytes.length * part))
      if (isPower) for (const [file, length] of unsafe) lose(file, length)
      for (const file of files) void file.close()
      crash()
    }
    return new Promise<void>(() => undefined)
  })
  const note = (step: string, path: string) => {
    if (step === 'write' && !unsafe.has(path)) unsafe.set(path, statSync(path).size)
    if (step.endsWith('sync')) unsafe.delete(path)
  }
  const fs: FileSystem = {
    ...inner,
    open: async (path, flags, mode) => {
      const file = await inner.open(path, flags, mode)
      files.add(file)
      const close = async () => {
        files.delete(file)
        await file.close()
      }
      return { ...file, close }
    },
  }
  return { fs, crashed, steps: () => steps }
}

function lose(path: string, length: number): void {
  if (existsSync(path)) truncateSync(path, length)
}

/** The last confirmed version, and whether the run completed. */
async function live(folder: string, crash: Crash) {
  const { fs, crashed } = crashingFileSystem(crash)
  let confirmed = 0
  const run = async () => {
    const self = lockOwner({ pid: 2 ** 22 + 1 })
    const surroundings = { self, livenessOf: () => 'dead' as const }
    const clock = { now: () => 0 }
    const store = await openFileStore({
      folder,
      clock,
      release: '',
      fs,
      processContext: surroundings,
    })
    let { version } = (await readAll(store)).position
    confirmed = version
    for (let turn = 0; turn < 3; turn++) {
      const keys = Array.from({ length: 30 }, (_, index) =>
        key(`k${index}`, { name: `${version}` }),
      )
      version = (await commit(store, [rule('a', version + 1), ...keys], { base: version })).version
      confirmed = version
    }
    await store.close()
    return 'ended' as const
  }
  const end = await Promise.race([run(), crashed])
  return { confirmed, end }
}

test.each([
  { part: 0, isPower: false },
  { part: 0.5, isPower: false },
  { part: 1, isPower: false },
  { part: 1, isPower: true },
])('a crash at any step leaves the old version or the new one: %o', async (how) => {
  for (let atStep = 1; ; atStep++) {
    const folder = makeRulesFolder()
    // Every other one begins with what an earlier process left.
    if (atStep % 2 === 0) await (await openStore(folder)).close()
    const { confirmed, end } = await live(folder, { ...how, atStep })
    const store = await openStore(folder)
    const { version } = (await readAll(store)).position
    const place = `step ${atStep}, version ${version}, confirmed ${confirmed}`
    expect([Math.max(1, confirmed), confirmed + 1], place).toContain(version)
    const state = await stateNow(store)
    expect(state.size, place).toBe(version === 1 ? 1 : 32)
    if (version > 1) expect(state.get('rule a'), place).toEqual(ruleBody('a', version))
    expect(readHead(readRules(folder)), place).toEqual({ version, isWhole: true })
    const left = filesIn(folder).filter((name) => name.includes('.new'))
    expect(left, place).toEqual([])
    expect((await commit(store, [rule('b')], { base: version })).version).toBe(version + 1)
    await store.close()
    if (end === 'ended') return expect(atStep).toBeGreaterThan(30)
  }
})

test('the simulated disk behaves like the real one until it fails', async () => {
  const { fs, steps } = crashingFileSystem({ atStep: Infinity, part: 0, isPower: false })
  const store = await openStore(makeRulesFolder(), { fs })
  await store.close()
  expect(steps()).toBeGreaterThan(10)
  expect(Object.keys(fs).toSorted()).toEqual(Object.keys(realFileSystem).toSorted())
})
