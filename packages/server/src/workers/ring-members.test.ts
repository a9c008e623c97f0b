import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { makeRingDirectory, removeRingDirectory } from './ring-directory.js'
import { RingMembers } from './ring-members.js'
import { WorkerRing } from './worker-ring.js'

/** Three workers that are named by their places, and the last list that each has received. */
function openMembers() {
  const received = new Map<number, readonly number[]>()
  const members = new RingMembers<number>({
    workers: () => [0, 1, 2],
    send: (worker, places) => void received.set(worker, places),
  })
  return { members, received }
}

describe('the list of members of a ring', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  test('goes to every worker when one joins or exits', () => {
    const { members, received } = openMembers()
    members.join(1, 1)
    members.join(2, 2)
    expect([...received]).toEqual([
      [0, [1, 2]],
      [1, [1, 2]],
      [2, [1, 2]],
    ])
    members.remove(1)
    expect(received.get(0)).toEqual([2])
  })

  test('has no worker that has exited, even if its messages come later', () => {
    const { members, received } = openMembers()
    members.join(1, 1)
    members.join(3, 2)
    expect(received.get(0)).toEqual([1])
  })

  test('names the others to a worker that leaves alone', () => {
    const { members, received } = openMembers()
    for (const place of [0, 1, 2]) members.join(place, place)
    members.leave(1)
    expect(received.get(1)).toEqual([0, 1, 2])
    vi.runAllTimers()
    expect(received.get(1)).toEqual([0, 2])
  })

  test('is empty when all workers end, so that none hands counters to one that ends too', () => {
    const { members, received } = openMembers()
    for (const place of [0, 1, 2]) members.join(place, place)
    members.leave(1)
    members.stop()
    vi.runAllTimers()
    expect(received.get(1)).toEqual([])
  })
})

describe('a worker of a ring', () => {
  function openWorker() {
    const sent: string[] = []
    const ring = new WorkerRing({
      directory: '/ring',
      place: 1,
      sendJoin: () => void sent.push('join'),
      sendLeave: () => void sent.push('leave'),
    })
    return { ring, sent }
  }

  test('knows the names and sockets of the members', () => {
    const { ring } = openWorker()
    const onChange = vi.fn()
    ring.onChange(onChange)
    ring.update([0, 1])
    expect(onChange).toHaveBeenCalledOnce()
    expect(ring.members()).toEqual([
      { name: 'worker-0', address: { path: '/ring/0.sock' } },
      { name: 'worker-1', address: { path: '/ring/1.sock' } },
    ])
    expect(ring.self).toEqual(ring.members()[1])
  })

  test('has left once the list comes without it', async () => {
    const { ring, sent } = openWorker()
    ring.join()
    ring.update([0, 1])
    const left = ring.leave()
    ring.update([0, 1, 2])
    ring.update([0, 2])
    await left
    expect(sent).toEqual(['join', 'leave'])
  })
})

describe('the folder of the sockets', () => {
  test('can be opened by its user only, and is removed', () => {
    const directory = makeRingDirectory('/nowhere')
    expect(statSync(directory).mode & 0o777).toBe(0o700)
    removeRingDirectory(directory)
    expect(() => statSync(directory)).toThrow('ENOENT')
  })

  test('is in the data directory where there is no temporary one, unless that path is too long', () => {
    const data = mkdtempSync(join(tmpdir(), 'sluice-data-'))
    vi.stubEnv('TMPDIR', join(data, 'missing'))
    try {
      const directory = makeRingDirectory(data)
      expect(directory.startsWith(data)).toBe(true)
      expect(() => makeRingDirectory(join(data, 'a'.repeat(100)))).toThrow('at most 103 bytes')
    } finally {
      vi.unstubAllEnvs()
      rmSync(data, { recursive: true, force: true })
    }
  })
})
