import {
  cpSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { spawn } from 'node:child_process'
import { afterEach, expect, test, vi } from 'vitest'
import { commit, readAll, rule } from '../conformance-kit.test-helper.js'
import { type FileSystem, realFileSystem } from './fs.js'
import { UnavailableError } from '../rule-store.js'
import {
  closeStores,
  filesIn,
  lockOwner,
  makeRulesFolder,
  openStore,
} from './file-store.test-helper.js'
import { type LockOwner, processContext } from './lock-owner.js'

afterEach(closeStores)

const NOBODY = 2 ** 22 + 1

/** A folder that another process locked as number 4, and a function that touches the lock. */
function lockedBy(other: LockOwner | string) {
  const folder = makeRulesFolder()
  mkdirSync(folder, { mode: 0o700 })
  const file = join(folder, 'lock.4')
  const text = typeof other === 'string' ? other : JSON.stringify({ ...other, isReleased: false })
  writeFileSync(file, text)
  const touchedAgo = (ms: number) => {
    const at = new Date(statSync(folder).mtimeMs - ms)
    utimesSync(file, at, at)
  }
  return { folder, touchedAgo }
}

const lockIn = (folder: string) => filesIn(folder).filter((name) => name.startsWith('lock'))

test('a second process gets an error that names the owner of the folder and what to do', async () => {
  const folder = makeRulesFolder()
  const store = await openStore(folder)
  const refused = openStore(folder)
  await expect(refused).rejects.toThrow(`${folder}: process ${process.pid} on`)
  await expect(refused).rejects.toThrow('SLUICE_DATA_DIR')
  await expect(refused).rejects.toThrow('SLUICE_DATABASE_URL')
  await commit(store, [rule('a')])
  expect(lockIn(folder)).toEqual(['lock.1'])
  await store.close()
  await openStore(folder)
  expect(lockIn(folder)).toEqual(['lock.2'])
})

test('of many processes that open at once, one gets the folder', async () => {
  const { folder } = lockedBy(lockOwner({ pid: NOBODY }))
  const settled = await Promise.allSettled(Array.from({ length: 8 }, () => openStore(folder)))
  expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(lockIn(folder)).toEqual(['lock.5'])
})

test('the lock of a dead process is taken over at once', async () => {
  const dead = [
    lockOwner({ pid: NOBODY }),
    lockOwner({ started: '1' }),
    lockOwner({ pid: 1, started: '1' }),
  ]
  for (const other of dead) {
    const { folder } = lockedBy(other)
    await openStore(folder)
    expect(lockIn(folder)).toEqual(['lock.5'])
  }
})

test('a zombie process counts as dead', async () => {
  // The shell becomes a program that never waits for the child it was given.
  const parent = spawn('sh', ['-c', 'sleep 0.5 & echo $!; exec sleep 60'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  try {
    const child = await new Promise<number>((resolve) =>
      parent.stdout.once('data', (text: Buffer) => resolve(Number(text.toString()))),
    )
    const stat = readFileSync(`/proc/${child}/stat`, 'utf8')
    const started = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
    const { livenessOf } = processContext('0.1.0')
    await expect
      .poll(() => livenessOf(lockOwner({ pid: child, started })), { timeout: 10_000 })
      .toBe('dead')
    expect(livenessOf(processContext('0.1.0').self)).toBe('alive')
  } finally {
    parent.kill('SIGKILL')
  }
})

test('an owner on another host counts as alive while it touches its lock', async () => {
  const elsewhere = lockOwner({ place: 'another machine', host: 'node-2', pid: 7 })
  const { folder, touchedAgo } = lockedBy(elsewhere)
  let waits = 0
  const wait = async () => {
    if (++waits === 3) touchedAgo(0)
  }
  touchedAgo(5000)
  const refused = openStore(folder, { wait })
  await expect(refused).rejects.toThrow('process 7 on node-2')
  expect(waits).toBe(3)
  expect(lockIn(folder)).toEqual(['lock.4'])
})

test('an owner on another host that is silent for 15 seconds counts as dead', async () => {
  const others = [
    lockOwner({ place: 'another machine' }),
    lockOwner({ started: '' }),
    'no json',
    '',
  ]
  for (const other of others) {
    const { folder, touchedAgo } = lockedBy(other)
    touchedAgo(1000)
    let waits = 0
    const wait = async () => void waits++
    // The time of the file system, read from a file that was just written, moves only by the time
    // waited.
    const startMs = statSync(folder).mtimeMs
    const fs: FileSystem = {
      ...realFileSystem,
      stat: async (path) => {
        const stats = await realFileSystem.stat(path)
        if (path.includes('lock.new-')) stats.mtimeMs = startMs + waits * 500
        return stats
      },
    }
    await openStore(folder, { wait, fs })
    // Of 15 seconds, 1 had passed.
    expect(waits).toBe(28)
  }
  const { folder, touchedAgo } = lockedBy(lockOwner({ place: 'another machine' }))
  touchedAgo(16_000)
  await openStore(folder, { wait: () => Promise.reject(new Error('it need not wait')) })
})

test('a copy of a folder in use can be opened once its lock is found to be silent', async () => {
  const folder = makeRulesFolder()
  await commit(await openStore(folder), [rule('a')])
  const copy = makeRulesFolder()
  cpSync(folder, copy, { recursive: true })
  let waits = 0
  const store = await openStore(copy, { wait: async () => void waits++ })
  expect(waits).toBeGreaterThanOrEqual(27)
  expect((await readAll(store)).position.version).toBe(2)
  await expect(openStore(folder)).rejects.toThrow('uses it')
})

test('a clock that was set back does not make the wait longer', async () => {
  const { folder, touchedAgo } = lockedBy(lockOwner({ place: 'another machine' }))
  touchedAgo(-3_600_000)
  let waits = 0
  const wait = async () => {
    if (++waits > 100) throw new Error('it waits for the clock')
  }
  await openStore(folder, { wait })
  expect(waits).toBeGreaterThanOrEqual(27)
})

test('an owner that lost its lock writes nothing more', async () => {
  for (const lose of [
    (folder: string) => rmSync(join(folder, 'lock.1')),
    (folder: string) =>
      writeFileSync(join(folder, 'lock.2'), JSON.stringify(lockOwner({ id: 'x' }))),
    // Like a process that starts in a folder that was removed and created again.
    (folder: string) => {
      rmSync(join(folder, 'lock.1'))
      writeFileSync(join(folder, 'lock.1'), JSON.stringify(lockOwner({ id: 'x' })))
    },
  ]) {
    const folder = makeRulesFolder()
    const store = await openStore(folder)
    await commit(store, [rule('a')])
    lose(folder)
    const refused = commit(store, [rule('b')], { base: 2 })
    await expect(refused).rejects.toThrow(UnavailableError)
    await expect(refused).rejects.toThrow('no longer holds the lock')
    expect(store.status().problem).toContain('no longer holds the lock')
    expect((await readAll(store)).position.version).toBe(2)
    const before = filesIn(folder)
    await store.close()
    expect(filesIn(folder)).toEqual(before)
  }
})

test('a late process with an old number does not take the lock from its owner', async () => {
  const folder = makeRulesFolder()
  await (await openStore(folder)).close()
  const store = await openStore(folder)
  expect(lockIn(folder)).toEqual(['lock.2'])
  writeFileSync(join(folder, 'lock.1'), JSON.stringify(lockOwner({ id: 'late' })))
  expect((await commit(store, [rule('a')])).version).toBe(2)
})

test('an owner touches its lock every three seconds', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  try {
    const folder = makeRulesFolder()
    await openStore(folder)
    const file = join(folder, 'lock.1')
    const text = readFileSync(file, 'utf8')
    utimesSync(file, 1, 1)
    vi.advanceTimersByTime(3000)
    await expect.poll(() => statSync(file).mtimeMs, { timeout: 10_000 }).toBeGreaterThan(1000)
    expect(readFileSync(file, 'utf8')).toBe(text)
  } finally {
    vi.useRealTimers()
  }
})

test('an owner notices within seconds that it lost its lock, and reports it', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  try {
    const folder = makeRulesFolder()
    const store = await openStore(folder)
    vi.advanceTimersByTime(3000)
    expect(store.status()).toMatchObject({ isConnected: true, problem: undefined })
    for (const [lose, why] of [
      [() => writeFileSync(join(folder, 'lock.2'), ''), 'another process took it over'],
      [() => rmSync(folder, { recursive: true }), 'ENOENT'],
    ] as const) {
      lose()
      vi.advanceTimersByTime(3000)
      await expect.poll(() => store.status().problem, { timeout: 10_000 }).toContain(why)
      expect(store.status().isConnected).toBe(false)
    }
  } finally {
    vi.useRealTimers()
  }
})

test('drafts left by a crash are removed', async () => {
  const { folder } = lockedBy(lockOwner({ pid: NOBODY }))
  writeFileSync(join(folder, 'lock.new-deadbeef'), 'half')
  writeFileSync(join(folder, 'lock.3'), 'older')
  await openStore(folder)
  expect(lockIn(folder)).toEqual(['lock.5'])
})
