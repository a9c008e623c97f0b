import { expect, test } from 'vitest'
import { wordsCommand } from './ask.js'
import { FakeChannel } from './channel.test-helper.js'
import { type RedisDriver, RedisReplyError } from './driver.js'
import { silentObserver } from './observer.js'
import { Part, type PartAnswer } from './part.js'
import { Router } from './router.js'
import type { BatchCodec } from './wire/request.js'

const COMMAND = wordsCommand(['BATCH'])
const TIME = [Buffer.from('1000'), Buffer.from('0')]

/** A Cluster of one primary, from which a slot is on its way to another node. */
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
    } as unknown as BatchCodec,
    timeCommand: wordsCommand(['TIME']),
    deadlineMs: 20,
    scriptTime: () => 0,
    observer: silentObserver,
    answering: () => {},
    isBusy: () => false,
    replied: () => {},
  })
  return { router, from, to, guards }
}

function takeOf(): { readonly part: Part; readonly answers: PartAnswer[] } {
  const answers: PartAnswer[] = []
  const owner = {
    deadlineAtMs: 20,
    isAnswered: false,
    settle: (_: Part, answer: PartAnswer) => {
      answers.push(answer)
    },
    split: (whole: Part) => [whole],
  }
  return { part: new Part(owner, { verb: 'take', groups: [], states: false }, 0, 1), answers }
}

/** Until what waits for the end of a turn has happened. */
const turn = () => new Promise((resolve) => setImmediate(resolve))

test('a node that a slot is on its way to decides nothing before its clock is known', async () => {
  const { router, from, to, guards } = open()
  from.reply(0, TIME)
  const first = takeOf()
  router.route(first.part)
  await turn()
  from.reply(1, new RedisReplyError(`ASK 1 ${to.address}`))
  expect([first.answers, to.words()]).toEqual([['not-run'], [['TIME']]])

  to.reply(0, TIME)
  const second = takeOf()
  router.route(second.part)
  await turn()
  from.reply(2, new RedisReplyError(`ASK 1 ${to.address}`))
  expect(to.words()).toEqual([['TIME'], ['ASKING', 'BATCH']])
  expect(guards.every((notAfter) => notAfter > 0)).toBe(true)
})
