import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { FakeChannel } from '../connection/channel.test-helper.js'
import { wordsCommand } from '../connection/run-command.js'
import { RedisConnectionError, RedisReplyError } from '../connection/driver.js'
import { NodePipeline, type NodePipelineDeps } from './node-pipeline.js'
import { silentObserver } from './redis-observer.js'
import { PartitionOp, type OpAnswer } from '../request/partition-op.js'

const DEADLINE_MS = 20
/** The largest cost of one batch. */
const BATCH_COST = 128
const COMMAND = wordsCommand(['BATCH'])
const TIME = [Buffer.from('1000'), Buffer.from('0')]
const CUT = new RedisConnectionError('cut')

class WatchedChannel extends FakeChannel {
  reconnects = 0
  override reconnect(): void {
    this.reconnects += 1
  }
}

let nowMs = 0
beforeEach(() => {
  nowMs = 0
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate'],
  })
})
afterEach(() => {
  vi.useRealTimers()
})

/** Advances the clock by whole milliseconds. */
async function pass(ms: number): Promise<void> {
  for (let i = 0; i < ms; i++) {
    nowMs += 1
    await vi.advanceTimersByTimeAsync(1)
  }
}

function open({ isBusy = () => false } = {}) {
  const channel = new WatchedChannel()
  const events: string[] = []
  const errors: string[] = []
  const deps: NodePipelineDeps = {
    nowMs: () => nowMs,
    random: () => 0,
    codec: { encode: () => ({ command: COMMAND, fallback: COMMAND }) },
    timeCommand: wordsCommand(['TIME']),
    preload: [],
    deadlineMs: DEADLINE_MS,
    scriptTime: () => 0,
    observer: {
      ...silentObserver,
      error: (code) => errors.push(code),
      breakerOpened: () => events.push('opened'),
      breakerClosed: () => events.push('closed'),
    },
    plan: (waiting) => [{ ops: waiting, asking: false }],
    route: () => {},
    redirect: () => {},
    resendPerCounter: () => {},
    onCrossSlot: () => {},
    onScriptPassed: () => {},
    refreshTopology: () => {},
    onAnswering: () => events.push('answering'),
    isBusy,
    onReply: () => {},
  }
  const pipeline = new NodePipeline(channel, deps)
  const answers: OpAnswer[] = []
  /** A take that is added now, and its settled answer. */
  const add = (weight = 1) => {
    const owner = {
      deadlineAtMs: nowMs + DEADLINE_MS,
      isAnswered: false,
      settle: (_: PartitionOp, answer: OpAnswer) => {
        owner.isAnswered = true
        answers.push(answer)
      },
      opsPerCounter: (whole: PartitionOp) => [whole],
    }
    const op = new PartitionOp(owner, { verb: 'take', groups: [], states: false }, 0, weight)
    pipeline.add(op)
    return op
  }
  const batches = () => channel.words().filter(([first]) => first === 'BATCH').length
  return { pipeline, channel, events, errors, answers, add, batches }
}

function openAnswering(options = {}) {
  const opened = open(options)
  opened.channel.reply(0, TIME)
  return opened
}

describe('a node whose time is not known', () => {
  test('receives no other command', async () => {
    const { add, answers, batches } = open()
    add()
    await pass(5)
    expect([answers, batches()]).toEqual([['not-run'], 0])
  })

  test('receives another TIME after an error reply', async () => {
    const { pipeline, channel, events } = open()
    channel.reply(0, new RedisReplyError('BUSY Redis is busy running a script.'))
    expect(pipeline.isAnswering).toBe(false)
    await pass(250)
    expect(channel.words()).toEqual([['TIME'], ['TIME']])
    channel.reply(1, TIME)
    expect([pipeline.isAnswering, events]).toEqual([true, ['answering']])
    await pass(700)
    expect(channel.sent.length).toBe(2)
  })

  test('loses its connection if it stays silent', async () => {
    const { channel } = open()
    await pass(1999)
    expect(channel.reconnects).toBe(0)
    await pass(300)
    expect(channel.reconnects).toBe(1)
  })
})

describe('a call that is not sent counts as an error', () => {
  test('with the code connection while there is none or its time is not known', () => {
    const { channel, add, answers, errors } = open()
    add()
    channel.reply(0, TIME)
    add()
    expect([answers, errors]).toEqual([['not-run'], ['connection']])
    channel.isReady = false
    add()
    add()
    expect([answers, errors]).toEqual([
      ['not-run', 'not-run', 'not-run'],
      ['connection', 'connection', 'connection'],
    ])
  })

  test('with the code breaker while the breaker is open', () => {
    const { pipeline, add, answers, errors } = openAnswering()
    pipeline.breaker.trip()
    add()
    expect([answers, errors]).toEqual([['not-run'], ['breaker']])
  })
})

describe('an idle node', () => {
  /** The offset of its clock when ours says `ms`. */
  const timeAt = (ms: number) => [Buffer.from('1000'), Buffer.from(String(ms * 1000))]

  test('receives TIME at least once a second, so its clock stays known', async () => {
    const { pipeline, channel } = openAnswering()
    let answered = 1
    for (let ms = 0; ms < 10_000; ms++) {
      await pass(1)
      for (; answered < channel.sent.length; answered++) channel.reply(answered, timeAt(nowMs))
      expect(nowMs - pipeline.clock.learntMs).toBeLessThanOrEqual(1000)
      expect(pipeline.clock.uncertaintyUs()).toBeLessThanOrEqual(2000)
    }
    expect(new Set(channel.words().flat())).toEqual(new Set(['TIME']))
    expect(channel.sent.length).toBeLessThanOrEqual(1 + 14)
  })

  test('receives no TIME while its replies contain its time', async () => {
    const { pipeline, channel } = openAnswering()
    for (let ms = 0; ms < 5000; ms += 500) {
      await pass(500)
      pipeline.clock.learn(nowMs - 1, nowMs, 1_000_000_000 + nowMs * 1000)
    }
    expect(channel.sent.length).toBe(1)
  })

  test('receives TIME only once while it does not answer', async () => {
    const { channel } = openAnswering()
    await pass(10_000)
    expect(channel.sent.length).toBe(2)
  })
})

describe('a silent connection', () => {
  /** Sends takes for this long without an answer. */
  async function ask({ add }: ReturnType<typeof open>, ms: number): Promise<void> {
    for (let i = 0; i < ms; i += 10) {
      const op = add()
      await pass(10)
      if (nowMs > DEADLINE_MS) op.expire()
    }
  }

  test('drops 2 s after the first unanswered command, not after the first probe', async () => {
    const opened = openAnswering()
    // An idle hour before is not silence, because nothing was sent.
    nowMs += 3_600_000
    await ask(opened, 2000)
    expect([opened.events, opened.channel.reconnects]).toEqual([['answering', 'opened'], 0])
    await pass(400)
    expect(opened.channel.reconnects).toBeGreaterThan(0)
  })

  test('closes the breaker and reports it once a new connection answers', async () => {
    const opened = openAnswering()
    const { pipeline, channel, events } = opened
    await ask(opened, 500)
    expect(pipeline.breaker.isOpen).toBe(true)
    const outstanding = channel.sent.length
    for (let write = 1; write < outstanding; write++) channel.reply(write, CUT)
    pipeline.onConnected()
    channel.reply(outstanding, TIME)
    expect([pipeline.isAnswering, pipeline.inFlight]).toEqual([true, 0])
    expect(events).toEqual(['answering', 'opened', 'closed', 'answering'])
  })
})

describe('takes for a node with spare time', () => {
  test('leave at once in separate batches while few are in flight', () => {
    const { pipeline, add, batches } = openAnswering()
    for (let i = 0; i < 4; i++) add()
    expect([batches(), pipeline.queueSize]).toEqual([4, 0])
  })

  test('leave together at the end of the turn when more are in flight', async () => {
    const { pipeline, add, batches } = openAnswering()
    for (let i = 0; i < 9; i++) add()
    expect([batches(), pipeline.queueSize]).toEqual([4, 5])
    await pass(1)
    expect([batches(), pipeline.queueSize]).toEqual([5, 0])
  })

  test('do not wait for the batches in flight, up to 64 of them', async () => {
    const { channel, add, batches } = open()
    // Far enough that the takes in flight never fill the node's time.
    await pass(16)
    channel.reply(0, TIME)
    for (let i = 0; i < 100; i++) {
      add()
      await pass(1)
    }
    expect(batches()).toBe(64)
  })
})

describe('an operation that is not sent before its deadline', () => {
  test('does not blame a node that owes no reply', async () => {
    const { pipeline, add, events, answers } = openAnswering()
    for (let i = 0; i < 20; i++) {
      nowMs += 50
      // A batch of no cost is never sent.
      add(0).expire()
    }
    expect([answers.length, pipeline.breaker.isOpen, events]).toEqual([20, false, ['answering']])
  })

  test('does not blame a node that answers others in time', async () => {
    const { pipeline, channel, add, events } = openAnswering()
    add(BATCH_COST)
    add(BATCH_COST)
    for (let i = 1; i <= 20; i++) {
      // Two full batches are in flight, so this one waits.
      const waiting = add()
      await pass(DEADLINE_MS - 2)
      expect(waiting.stage).toBe('queued')
      waiting.expire()
      channel.reply(i, CUT)
      add(BATCH_COST)
      await pass(1)
    }
    expect([pipeline.breaker.isOpen, events]).toEqual([false, ['answering']])
  })

  test('blames a node that has owed replies for as long as one may take', async () => {
    const { add, events } = openAnswering()
    add(BATCH_COST)
    add(BATCH_COST)
    // Nothing more is sent, because nothing returns.
    for (let i = 0; i < 6; i++) {
      const waiting = add()
      await pass(DEADLINE_MS + 1)
      waiting.expire()
    }
    expect(events).toEqual(['answering', 'opened'])
  })
})

describe('operations with a deadline shorter than that of the store', () => {
  const HASTE_MS = 2

  test('do not blame a node that answers others meanwhile', async () => {
    const { pipeline, channel, add } = openAnswering()
    for (let i = 1; i <= 40; i += 2) {
      const hasty = add()
      add()
      await pass(HASTE_MS)
      hasty.expire()
      await pass(DEADLINE_MS)
      channel.reply(i, CUT)
      channel.reply(i + 1, CUT)
    }
    expect(pipeline.breaker.isOpen).toBe(false)
  })

  test('blame a node that has been silent for as long as the deadline of the store', async () => {
    const { pipeline, add } = openAnswering()
    for (let i = 0; i < 8; i++) {
      const hasty = add()
      await pass(HASTE_MS)
      hasty.expire()
      await pass(DEADLINE_MS)
    }
    expect(pipeline.breaker.isOpen).toBe(true)
  })
})

describe('a process that is too busy to read in time', () => {
  test('does not blame the node for late replies', async () => {
    const { pipeline, channel, add } = openAnswering({ isBusy: () => true })
    for (let i = 1; i <= 20; i++) {
      const op = add()
      await pass(100)
      op.expire()
      channel.reply(i, CUT)
    }
    expect(pipeline.breaker.isOpen).toBe(false)
  })

  test('drops a connection that has been silent for two seconds', async () => {
    const { add, channel, events } = openAnswering({ isBusy: () => true })
    for (let ms = 0; ms < 2000; ms += 100) {
      const op = add()
      await pass(100)
      op.expire()
    }
    expect([events, channel.reconnects]).toEqual([['answering'], 0])
    add()
    await pass(300)
    expect([events, channel.reconnects > 0]).toEqual([['answering', 'opened'], true])
  })

  test('forgets the calls that it has answered itself, however many', async () => {
    const { pipeline, add } = openAnswering({ isBusy: () => true })
    for (let i = 0; i < 4; i++) {
      add(128)
      await pass(3)
    }
    for (let i = 0; i < 10_000; i++) add().expire()
    expect(pipeline.queuedCost).toBe(0)
    expect(pipeline.queueSize).toBeLessThan(200)
  })
})

test('an idle connection that does not answer is dropped after two seconds', async () => {
  const { channel, events } = openAnswering()
  await pass(3500)
  expect([events, channel.reconnects > 0]).toEqual([['answering', 'opened'], true])
})

describe('a heavy operation', () => {
  test('leaves alone, one at a time, and light ones do not wait for it', async () => {
    const { channel, add, batches } = openAnswering()
    const sizes = () =>
      channel.sent.slice(1).map(({ commands }) => commands.map((each) => each.words().join(' ')))
    add(1000)
    add(1000)
    add(1)
    await pass(3)
    expect([batches(), sizes()]).toEqual([2, [['BATCH'], ['BATCH']]])
    channel.reply(2, CUT)
    await pass(1)
    expect(batches()).toBe(3)
  })

  test('makes room for the next if it cannot be sent', async () => {
    const { channel, add, answers, batches } = openAnswering()
    channel.send = () => false
    add(1000)
    await pass(1)
    expect(answers).toEqual(['not-run'])
    delete (channel as Partial<typeof channel>).send
    add(1000)
    await pass(1)
    expect(batches()).toBe(1)
  })
})
