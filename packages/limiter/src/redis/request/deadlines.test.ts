import { once } from 'node:events'
import { connect } from 'node:net'
import { Worker } from 'node:worker_threads'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Deadlines, type Expirable } from './deadlines.js'

class Waiting implements Expirable {
  readonly deadlineAtMs: number
  isAnswered = false
  expiredAtMs: number | undefined

  constructor(deadlineAtMs: number) {
    this.deadlineAtMs = deadlineAtMs
  }

  expire(): void {
    this.isAnswered = true
    this.expiredAtMs = performance.now()
  }
}

function make(
  replies: () => number = () => 0,
  deadlines = new Deadlines(() => performance.now(), replies),
) {
  return (deadlineMs: number) => {
    const call = new Waiting(performance.now() + deadlineMs)
    deadlines.add(call, deadlineMs)
    return call
  }
}

describe('deadlines', () => {
  beforeEach(() => {
    vi.useFakeTimers()
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  test('a call without an answer ends at its deadline, not before', () => {
    const call = make()(20)
    vi.advanceTimersByTime(19)
    expect(call.expiredAtMs).toBeUndefined()
    vi.advanceTimersByTime(3)
    expect(call.isAnswered).toBe(true)
  })

  test('closing ends all calls and leaves no timer', () => {
    const deadlines = new Deadlines(
      () => performance.now(),
      () => 0,
    )
    const add = make(() => 0, deadlines)
    const [short, long] = [add(20), add(10_000)]
    const answered = add(10_000)
    answered.isAnswered = true
    deadlines.close()
    expect([short.isAnswered, long.isAnswered]).toEqual([true, true])
    expect([answered.expiredAtMs, vi.getTimerCount()]).toEqual([undefined, 0])
  })

  test('an answered call does not expire', () => {
    const call = make()(20)
    call.isAnswered = true
    vi.advanceTimersByTime(50)
    expect(call.expiredAtMs).toBeUndefined()
  })

  test('a short deadline does not wait behind a long one', () => {
    const add = make()
    const long = add(1000)
    const short = add(5)
    vi.advanceTimersByTime(8)
    expect([short.isAnswered, long.isAnswered]).toEqual([true, false])
    vi.advanceTimersByTime(1000)
    expect(long.isAnswered).toBe(true)
  })

  test('calls expire in order of arrival', () => {
    const add = make()
    const calls: Waiting[] = []
    for (let n = 0; n < 30; n++) {
      calls.push(add(10))
      vi.advanceTimersByTime(1)
    }
    vi.advanceTimersByTime(20)
    const late = calls.map(({ expiredAtMs = Infinity, deadlineAtMs }) => expiredAtMs - deadlineAtMs)
    expect(Math.min(...late)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...late)).toBeLessThanOrEqual(3)
  })

  test('no call expires while replies are being read, up to the cap', () => {
    let replies = 0
    const call = make(() => ++replies)(20)
    vi.advanceTimersByTime(40)
    expect(call.isAnswered).toBe(false)
    vi.advanceTimersByTime(10)
    expect(call.isAnswered).toBe(true)
  })

  /** Turns of an event loop whose time and reads the test controls. */
  function makeLoop() {
    const clock = { nowMs: 0 }
    const loop = { replies: 0, afterRead: undefined as (() => void) | undefined }
    const deadlines = new Deadlines(
      () => clock.nowMs,
      () => loop.replies,
      (run) => {
        loop.afterRead = run
      },
    )
    const add = (deadlineMs: number) => {
      const call = new Waiting(clock.nowMs + deadlineMs)
      deadlines.add(call, deadlineMs)
      return call
    }
    /** Reads the sockets, which takes this long and answers these calls. */
    const read = (tookMs: number, answered: readonly Waiting[] = []) => {
      for (const call of answered) {
        call.isAnswered = true
        loop.replies += 1
      }
      clock.nowMs += tookMs
      const { afterRead } = loop
      loop.afterRead = undefined
      afterRead?.()
    }
    const ringAt = (nowMs: number) => {
      clock.nowMs = nowMs
      vi.runOnlyPendingTimers()
    }
    return { add, read, ringAt, clock, isReading: () => loop.afterRead !== undefined }
  }

  test('a reply in the socket wins, however long the event loop was blocked', () => {
    const { add, read, ringAt } = makeLoop()
    const [answered, silent] = [add(20), add(20)]
    ringAt(5000)
    expect([answered.isAnswered, silent.isAnswered]).toEqual([false, false])
    read(0, [answered])
    expect([answered.expiredAtMs, silent.isAnswered]).toEqual([undefined, true])
  })

  test('beyond the cap the sockets are read once, even if that brought replies', () => {
    const { add, read, ringAt, isReading } = makeLoop()
    const [first, second] = [add(20), add(20)]
    ringAt(46)
    read(0, [first])
    expect([second.isAnswered, isReading()]).toEqual([true, false])
  })

  test('a call whose deadline passes during the read for another gets its own read', () => {
    const { add, read, ringAt, clock } = makeLoop()
    const early = add(20)
    clock.nowMs = 15
    const later = add(20)
    ringAt(20)
    // The turn that reads for the first call takes long; the reply to the second arrives unread.
    read(30)
    expect([early.isAnswered, later.isAnswered]).toEqual([true, false])
    read(0, [later])
    expect(later.expiredAtMs).toBeUndefined()
  })

  test('a call that no read answers ends after its own read', () => {
    const { add, read, ringAt, clock } = makeLoop()
    add(20)
    clock.nowMs = 15
    const later = add(20)
    ringAt(20)
    read(30)
    read(0)
    expect(later.isAnswered).toBe(true)
  })

  test('a process is busy from a late timer until one that is in time', () => {
    const clock = { lagMs: 0 }
    const deadlines = new Deadlines(
      () => performance.now() + clock.lagMs,
      () => 0,
    )
    const wait = () => {
      deadlines.add(new Waiting(performance.now() + 20), 20)
      vi.advanceTimersByTime(10)
    }
    wait()
    expect(deadlines.isBusy).toBe(false)
    clock.lagMs = 50
    vi.advanceTimersByTime(30)
    expect(deadlines.isBusy).toBe(true)
    wait()
    vi.advanceTimersByTime(30)
    expect(deadlines.isBusy).toBe(false)
  })

  test('a hundred thousand answered calls leave nothing behind', () => {
    const add = make()
    for (let n = 0; n < 100_000; n++) add(10_000).isAnswered = true
    expect(vi.getTimerCount()).toBe(1)
    vi.advanceTimersByTime(10_001)
    expect(vi.getTimerCount()).toBe(0)
  })
})

/** The same in Node's own event loop, with a real socket. */
test('a reply that arrived while the process was blocked wins over a deadline long past', async () => {
  const flag = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(REPLIER, { eval: true, workerData: flag })
  const [port] = (await once(worker, 'message')) as [number]
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  const [deadlineMs, capMs] = [20, 25]
  const call = new Waiting(performance.now() + deadlineMs)
  let replies = 0
  const answered = once(socket, 'data').then(() => {
    replies += 1
    call.isAnswered = true
  })
  new Deadlines(
    () => performance.now(),
    () => replies,
  ).add(call, deadlineMs)
  socket.write('take')
  // Written by the kernel at once; this thread reads only after the deadline and the cap.
  Atomics.wait(flag, 0, 0)
  const untilMs = call.deadlineAtMs + 2 * capMs
  while (performance.now() < untilMs);
  await answered
  expect(call.expiredAtMs).toBeUndefined()
  socket.destroy()
  await worker.terminate()
})

/** Replies to what it reads, and reports when the reply was written. */
const REPLIER = `
const { createServer } = require('node:net')
const { parentPort, workerData: flag } = require('node:worker_threads')
const server = createServer((socket) => {
  socket.on('data', () => {
    socket.write('granted', () => {
      Atomics.store(flag, 0, 1)
      Atomics.notify(flag, 0)
    })
  })
})
server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))
`
