import { statSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { realFileSystem } from '../../rules/store/file/fs.js'
import {
  closeAfterEach,
  readAll,
  type DecisionInput,
  startLog,
} from './decision-log.test-helper.js'

closeAfterEach()

const START_MS = 1_760_000_000_000
const CALLER = { hi: 0x01234567, lo: 0x0abcdef0 }
const inputOf = (more: Partial<DecisionInput> = {}): DecisionInput => ({
  atMs: START_MS,
  rule: 'orders-per-user',
  caller: CALLER,
  cost: 1,
  outcome: 'allowed',
  source: 'store',
  ...more,
})
describe('a disk that fails', () => {
  /** Accepts this many bytes, then fails as a full disk. */
  function smallDisk() {
    const room = { bytes: Infinity }
    const disk: typeof realFileSystem = {
      ...realFileSystem,
      async open(path, flags, mode) {
        const file = await realFileSystem.open(path, flags, mode)
        return new Proxy(file, {
          get(target, key) {
            if (key !== 'write') {
              const value: unknown = Reflect.get(target, key)
              return typeof value === 'function' ? value.bind(target) : value
            }
            return async (bytes: Uint8Array, at: number, length: number) => {
              const taken = Math.min(length, room.bytes)
              if (taken === 0) throw Object.assign(new Error('full'), { code: 'ENOSPC' })
              room.bytes -= taken
              return target.write(bytes, at, taken)
            }
          },
        })
      },
    }
    return { disk, room }
  }

  test('costs lines, which are counted and logged once a minute, and never a decision', async () => {
    const { disk, room } = smallDisk()
    const { log, file, lines, clock, counts, record: write } = await startLog({ disk })
    write(inputOf())
    await log.flush()
    room.bytes = 40
    for (let cost = 2; cost < 5; cost++) {
      write(inputOf({ cost }))
      write(inputOf({ cost }))
      await log.flush()
    }
    expect(counts()).toEqual({ lines: 1, dropped: 6 })
    room.bytes = Infinity
    write(inputOf({ cost: 9 }))
    await log.flush()
    expect((await readAll(file)).map(({ cost }) => cost)).toEqual([1, 9])
    expect(counts()).toEqual({ lines: 2, dropped: 6 })
    const errors = () => lines.filter(({ level }) => level === 'error')
    expect(errors()).toMatchObject([{ file, problem: 'the disk is full (ENOSPC)', dropped: 2 }])
    room.bytes = 0
    clock.nowMs += 60_000
    write(inputOf({ atMs: clock.nowMs }))
    await log.flush()
    expect(errors()).toHaveLength(2)
  })

  test('that can neither write nor truncate leaves an incomplete line', async () => {
    const { disk, room } = smallDisk()
    const stubborn: typeof realFileSystem = {
      ...disk,
      async open(path, flags, mode) {
        const file = await disk.open(path, flags, mode)
        return new Proxy(file, {
          get(target, key) {
            if (key === 'truncate') return () => Promise.reject(new Error('read only'))
            return Reflect.get(target, key) as unknown
          },
        })
      },
    }
    const { log, file, record: write } = await startLog({ disk: stubborn })
    write(inputOf())
    await log.flush()
    room.bytes = 10
    write(inputOf({ cost: 2 }))
    await log.flush()
    room.bytes = Infinity
    write(inputOf({ cost: 3 }))
    await log.flush()
    expect((await readAll(file)).map(({ cost }) => cost)).toEqual([1, 3])
  })

  test('that is slow buffers 4 MB and drops the rest', async () => {
    let open = () => {}
    const gate = new Promise<void>((resolve) => (open = resolve))
    const disk: typeof realFileSystem = {
      ...realFileSystem,
      async open(path, flags, mode) {
        const file = await realFileSystem.open(path, flags, mode)
        return new Proxy(file, {
          get(target, key) {
            const value: unknown = Reflect.get(target, key)
            if (typeof value !== 'function') return value
            if (key !== 'write') return value.bind(target)
            return async (...args: [Uint8Array, number, number]) => {
              await gate
              return target.write(...args)
            }
          },
        })
      },
    }
    const { log, file, counts, record: write } = await startLog({ disk })
    for (let i = 0; i < 200_000; i++) write(inputOf({ cost: i }))
    const { dropped = 0 } = counts()
    expect(dropped).toBeGreaterThan(10_000)
    open()
    await log.flush()
    expect(counts()).toEqual({ lines: 200_000 - dropped, dropped })
    const read = (await readAll(file)).map(({ cost }) => cost)
    expect(read).toEqual(Array.from({ length: 200_000 - dropped }, (_, i) => i))
  })

  test('whose folder is read-only lets the file grow to twice its size, and no further', async () => {
    const disk: typeof realFileSystem = {
      ...realFileSystem,
      rename: () => Promise.reject(Object.assign(new Error('no'), { code: 'EACCES' })),
    }
    const { log, file, counts, record: write } = await startLog({ disk, maxBytes: 2000 })
    for (let i = 0; i < 1000; i++) {
      write(inputOf({ cost: i }))
      await log.flush()
    }
    expect(statSync(file).size).toBeGreaterThan(4000)
    expect(statSync(file).size).toBeLessThan(4200)
    const { lines = 0, dropped = 0 } = counts()
    expect(lines + dropped).toBe(1000)
    expect(await readAll(file)).toHaveLength(lines)
  })
})
