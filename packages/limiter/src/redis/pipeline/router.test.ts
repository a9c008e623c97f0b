import { defineLimit, type Take } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { wordsCommand } from '../connection/run-command.js'
import { FakeChannel } from '../connection/channel.test-helper.js'
import { type RedisDriver, RedisReplyError } from '../connection/driver.js'
import { silentObserver } from './redis-observer.js'
import { PartitionOp, type OpAnswer } from '../request/partition-op.js'
import { Router } from './router.js'
import { TakeOp, TakeRequest } from '../request/take-request.js'
import type { StoreOp } from '../protocol/batch-request.js'

const COMMAND = wordsCommand(['BATCH'])
const TIME = [Buffer.from('1000'), Buffer.from('0')]

/** A Cluster of one primary, from which a slot is migrating to another node. */
function open() {
  const from = new FakeChannel('127.0.0.1:1')
  const to = new FakeChannel('127.0.0.1:2')
  const driver: RedisDriver = {
    topology: 'cluster',
    channelOf: () => from,
    channelAt: (address) => [from, to].find((channel) => channel.address === address),
    channels: () => [from],
    refresh: () => {},
    onReady: () => {},
    onProblem: () => {},
    subscribe: () => ({ close: () => {} }),
    close: async () => {},
  }
  const guards: number[] = []
  const router = new Router(driver, {
    nowMs: () => 0,
    random: () => 0,
    codec: {
      encode: (_: unknown, { notAfter }: { readonly notAfter: number }) => {
        guards.push(notAfter)
        return { command: COMMAND, fallback: COMMAND }
      },
    },
    timeCommand: wordsCommand(['TIME']),
    preload: [],
    deadlineMs: 20,
    scriptTime: () => 0,
    observer: silentObserver,
    onAnswering: () => {},
    isBusy: () => false,
    onReply: () => {},
  })
  return { router, from, to, guards }
}

function takeOf(): { readonly op: PartitionOp; readonly answers: OpAnswer[] } {
  const answers: OpAnswer[] = []
  const owner = {
    deadlineAtMs: 20,
    isAnswered: false,
    settle: (_: PartitionOp, answer: OpAnswer) => {
      answers.push(answer)
    },
    opsPerCounter: (whole: PartitionOp) => [whole],
  }
  return { op: new PartitionOp(owner, { verb: 'take', groups: [], states: false }, 0, 1), answers }
}

/** Resolves after the callbacks at the end of this turn have run. */
const turn = () => new Promise((resolve) => setImmediate(resolve))

test('a node that receives a migrating slot decides nothing before its clock is known', async () => {
  const { router, from, to, guards } = open()
  from.reply(0, TIME)
  const first = takeOf()
  router.route(first.op)
  await turn()
  from.reply(1, new RedisReplyError(`ASK 1 ${to.address}`))
  expect([first.answers, to.words()]).toEqual([['not-run'], [['TIME']]])

  to.reply(0, TIME)
  const second = takeOf()
  router.route(second.op)
  await turn()
  from.reply(2, new RedisReplyError(`ASK 1 ${to.address}`))
  expect(to.words()).toEqual([['TIME'], ['ASKING', 'BATCH']])
  expect(guards.every((notAfter) => notAfter > 0)).toBe(true)
})

const CROSSSLOT = new RedisReplyError("CROSSSLOT Keys in request don't hash to the same slot")

/** One address, behind which a proxy shards keys over several servers. */
function openProxied() {
  const channel = new FakeChannel()
  const driver: RedisDriver = {
    topology: 'standalone',
    channelOf: () => channel,
    channelAt: () => channel,
    channels: () => [channel],
    refresh: () => {},
    onReady: () => {},
    onProblem: () => {},
    subscribe: () => ({ close: () => {} }),
    close: async () => {},
  }
  const problems: string[] = []
  /** For each script, the partitions of its counters. */
  const scripts: (readonly number[])[] = []
  const router = new Router(driver, {
    nowMs: () => 0,
    random: () => 0,
    codec: {
      encode: (ops: readonly StoreOp[]) => {
        const partitions = ops.flatMap((op) =>
          op.verb === 'take' ? op.groups.flat().map(({ key }) => key.partition) : [],
        )
        scripts.push([...new Set(partitions)])
        return { command: COMMAND, fallback: COMMAND }
      },
    },
    timeCommand: wordsCommand(['TIME']),
    preload: [],
    deadlineMs: 20,
    scriptTime: () => 0,
    observer: { ...silentObserver, problem: (text) => problems.push(text) },
    onAnswering: () => {},
    isBusy: () => false,
    onReply: () => {},
  })
  channel.reply(0, TIME)
  const answers: unknown[] = []
  const ask = (...partitions: readonly number[]) => {
    const limit = defineLimit({ algorithm: 'fixed-window', max: 10, windowMs: 60_000 })
    const takes = partitions.map((partition, n): Take => {
      return { key: { hi: n, lo: partition, partition }, limit, amount: 1 }
    })
    const call = new TakeRequest({
      takeOp: new TakeOp('take', [takes], false),
      deadlineAtMs: 20,
      onLate: undefined,
      resolve: (answer) => answers.push(answer),
    })
    router.route(call.asOneOp(0))
    return call
  }
  return { router, channel, problems, scripts, answers, ask }
}

describe('a proxy that shards behind one address', () => {
  test('gets one script per partition after it refused a mixed one, which is reported once', async () => {
    const { router, channel, problems, scripts, ask } = openProxied()
    ask(1, 2)
    ask(3)
    ask(3)
    await turn()
    // The first is sent at once, the others with it or after it.
    expect([scripts, router.isPartitioned]).toEqual([[[1, 2], [3], [3]], false])
    channel.reply(1, CROSSSLOT)
    await turn()
    expect(router.isPartitioned).toBe(true)
    expect(scripts.slice(3).map(String).toSorted()).toEqual(['1', '2'])
    expect(problems).toEqual([
      'Redis 127.0.0.1:6379 shards its keys behind one address (CROSSSLOT): sending one script for each partition from now on',
    ])
  })

  test('gets one script per partition also if the deadline of the other calls has passed', async () => {
    const { router, channel, problems, scripts, ask } = openProxied()
    // While few are in flight each is sent alone; these make the next two leave together.
    for (let n = 0; n < 4; n++) ask(9)
    const late = ask(1)
    ask(2)
    await turn()
    expect(scripts).toEqual([[9], [9], [9], [9], [1, 2]])
    late.expire()
    channel.reply(5, CROSSSLOT)
    await turn()
    expect(router.isPartitioned).toBe(true)
    expect(scripts.slice(5)).toEqual([[2]])
    expect(problems).toHaveLength(1)
  })

  test('causes a problem report and no resend if it refuses counters of one partition', async () => {
    const { router, channel, problems, answers, scripts, ask } = openProxied()
    ask(3, 3)
    await turn()
    channel.reply(1, CROSSSLOT)
    await turn()
    expect(answers).toEqual([[['not-run', 'not-run']]])
    expect([scripts.length, router.isPartitioned]).toEqual([1, false])
    expect(problems).toEqual([
      "Redis 127.0.0.1:6379 refuses scripts: CROSSSLOT Keys in request don't hash to the same slot",
    ])
  })
})
