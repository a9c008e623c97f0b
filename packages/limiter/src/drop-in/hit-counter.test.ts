import { describe, expect, test } from 'vitest'
import { memoryStore } from '../index.js'
import { ScriptedStore, settled } from '../scripted-store.test-helper.js'
import { readDropInOptions } from './drop-in-options.js'
import { SluiceStore } from './express-rate-limit.js'
import { HitCounter } from './hit-counter.js'

const NAME = ['a']
const HIT = { windowMs: 60_000, amount: 1 }

async function open(options: { readonly onSilence?: 'local' | 'reject' } = {}) {
  const store = new ScriptedStore()
  const lines: string[] = []
  const logger = { warn: (line: string) => void lines.push(line) }
  const settings = readDropInOptions({ store, logger, clock: store.clock, ...options }, 'test')
  const counter = new HitCounter('test', settings)
  await counter.ready()
  return { store, counter, lines }
}

function silence(store: ScriptedStore, fate: 'not-run' | 'ran' | 'lost'): void {
  const error = Object.assign(new Error('gone'), { silence: 'not-run' })
  Object.assign(store.script, { verbError: error, peekError: error })
  store.all(fate)
}

describe('while the store does not answer', () => {
  test.each(['not-run', 'ran', 'lost'] as const)(
    'hits are counted in this process, from 1 on (%s)',
    async (fate) => {
      const { store, counter } = await open()
      for (let i = 0; i < 5; i++) await counter.count(NAME, HIT)
      silence(store, fate)
      for (const hits of [1, 2, 3]) {
        expect(await counter.count(NAME, HIT)).toMatchObject({ hits, isLocal: true })
      }
      expect(await counter.read(NAME, HIT.windowMs)).toMatchObject({ hits: 3, isLocal: true })
    },
  )

  test('each of n nodes reports a count by which the host admits a share of its limit', async () => {
    const { store, counter } = await open()
    silence(store, 'not-run')
    store.nodes = 4
    const limit = 10
    let admitted = 0
    for (let i = 0; i < 20; i++) {
      if ((await counter.count(NAME, HIT)).hits <= limit) admitted += 1
    }
    expect(admitted).toBe(3)
  })

  test('one line is logged for an outage, and one for its end', async () => {
    const { store, counter, lines } = await open()
    silence(store, 'not-run')
    for (let i = 0; i < 3; i++) await counter.count(NAME, HIT)
    store.recover()
    await counter.count(NAME, HIT)
    expect(lines).toEqual([
      'sluice: test: the store does not answer; hits are counted in this process',
      'sluice: test: the store answers again',
    ])
  })

  test('with onSilence reject every promise rejects with STORE_FAILED', async () => {
    const { store, counter } = await open({ onSilence: 'reject' })
    silence(store, 'not-run')
    const failed = { code: 'STORE_FAILED' }
    await expect(counter.count(NAME, HIT)).rejects.toMatchObject(failed)
    await expect(counter.read(NAME, 1000)).rejects.toMatchObject(failed)
    await expect(counter.reset(NAME)).rejects.toMatchObject(failed)
  })

  test('a reset, a hold and a subtraction resolve and hold in this process', async () => {
    const { store, counter } = await open()
    silence(store, 'not-run')
    const { at } = await counter.count(NAME, HIT)
    await counter.hold(NAME, 9, 30_000, at)
    const held = { ...HIT, holds: true }
    const blocked = await counter.count(NAME, held)
    expect(blocked).toMatchObject({ hits: 9, isHeld: true })
    await counter.subtract(NAME, HIT.windowMs, 2, blocked)
    expect(await counter.count(NAME, held)).toMatchObject({ hits: 7, isHeld: true })
    await counter.reset(NAME)
    const counted = await counter.count(NAME, held)
    expect(counted).toMatchObject({ hits: 1, isHeld: false })
    await counter.subtract(NAME, HIT.windowMs, 1, counted)
    expect((await counter.read(NAME, HIT.windowMs)).hits).toBe(0)
  })
})

describe('when the store answers again', () => {
  test('it is charged with hits that it certainly did not count', async () => {
    const { store, counter } = await open()
    await counter.count(NAME, HIT)
    silence(store, 'not-run')
    for (let i = 0; i < 3; i++) await counter.count(NAME, HIT)
    store.recover()
    await settled()
    expect((await counter.count(NAME, HIT)).hits).toBe(5)
  })

  test('it is charged with hits that it turns out not to have counted', async () => {
    const { store, counter } = await open()
    silence(store, 'lost')
    for (let i = 0; i < 3; i++) await counter.count(NAME, HIT)
    store.comeLate()
    store.recover()
    await settled()
    expect((await counter.count(NAME, HIT)).hits).toBe(4)
  })

  test('hits that it counted too late are not counted twice', async () => {
    const { store, counter } = await open()
    silence(store, 'ran')
    for (let i = 0; i < 3; i++) await counter.count(NAME, HIT)
    store.comeLate()
    // Here they are taken back, so that the next outage begins without them.
    expect((await counter.count(NAME, HIT)).hits).toBe(1)
    store.recover()
    await settled()
    expect((await counter.count(NAME, HIT)).hits).toBe(5)
  })

  test.each(['not-run', 'lost'] as const)(
    'hits that were taken back meanwhile are not charged (%s)',
    async (fate) => {
      const { store, counter } = await open()
      silence(store, fate)
      for (let i = 0; i < 3; i++) {
        const counted = await counter.count(NAME, HIT)
        await counter.subtract(NAME, HIT.windowMs, 1, counted)
      }
      await counter.count(NAME, HIT)
      store.comeLate()
      store.recover()
      await settled()
      expect((await counter.count(NAME, HIT)).hits).toBe(2)
    },
  )
})

describe('when a hold ends between the answer and what follows it', () => {
  const HELD = { ...HIT, holds: true, countsHeld: true }

  /** A counter on which 100 ms pass after the store's next answer, with what `meanwhile` does. */
  async function openSlow(meanwhile = async () => {}) {
    const { store, counter } = await open()
    const take = store.take.bind(store)
    store.take = async (groups, options) => {
      store.take = take
      const answers = await take(groups, options)
      store.clock.advance(100)
      await meanwhile()
      return answers
    }
    return { store, counter }
  }

  test('a hit that is added to the hold does not begin another one', async () => {
    const { store, counter } = await openSlow()
    await counter.hold(NAME, 9, 1000, store.clock.now())
    store.clock.advance(950)
    expect(await counter.count(NAME, HELD)).toMatchObject({ hits: 10, isHeld: true, resetMs: 50 })
    await settled()
    expect(await counter.count(NAME, HELD)).toMatchObject({ hits: 1, isHeld: false })
  })

  test('a hit that is taken back from the hold does not begin another one', async () => {
    const { store, counter } = await open()
    await counter.hold(NAME, 9, 1000, store.clock.now())
    store.clock.advance(950)
    const held = await counter.read(NAME, HIT.windowMs, true)
    store.clock.advance(50)
    await counter.subtract(NAME, HIT.windowMs, 1, held)
    expect(await counter.count(NAME, HELD)).toMatchObject({ hits: 1, isHeld: false })
  })

  test('hits that were counted after it are not lost', async () => {
    const { store, counter } = await openSlow(async () => {
      await counter.count(NAME, HELD)
      await counter.count(NAME, HELD)
    })
    await counter.hold(NAME, 9, 1000, store.clock.now())
    store.clock.advance(950)
    expect((await counter.count(NAME, HELD)).isHeld).toBe(true)
    await settled()
    expect((await counter.count(NAME, HELD)).hits).toBe(3)
  })
})

test('a hit during a hold neither shortens it nor a longer one that replaces it', async () => {
  const { store, counter } = await open()
  await counter.hold(NAME, 9, 1000, store.clock.now())
  for (const hits of [10, 11, 12]) {
    store.clock.set(store.clock.now() + 1)
    expect((await counter.count(NAME, { ...HIT, holds: true, countsHeld: true })).hits).toBe(hits)
    await settled()
  }
  const add = counter.count(NAME, { ...HIT, holds: true, countsHeld: true })
  await counter.hold(NAME, 20, 60_000, store.clock.now())
  await add
  await settled()
  const { hits, resetMs } = await counter.read(NAME, HIT.windowMs, true)
  expect(resetMs).toBe(60_000)
  expect(hits).toBeGreaterThanOrEqual(20)
})

test('hits are counted in this process until the secret of the store is known', async () => {
  let know: (secret: Uint8Array) => void = () => {}
  const secret = new Promise<Uint8Array>((resolve) => {
    know = resolve
  })
  const store = new ScriptedStore({ secret })
  const express = new SluiceStore({ store, clock: store.clock, windowMs: 60_000 })
  expect((await express.increment('a')).totalHits).toBe(1)
  expect(store.requests).toEqual([])
  know(new Uint8Array(16))
  await express.ready()
  await express.increment('a')
  expect(store.requests).toHaveLength(1)
})

test('a counter that was closed rejects, and says so', async () => {
  const counter = new HitCounter('test', readDropInOptions({ store: memoryStore() }, 'test'))
  await counter.close()
  await expect(counter.count(NAME, HIT)).rejects.toThrow('This store of test was closed')
})

test('options name what was found and what is accepted', () => {
  const read = (options: object) => () => readDropInOptions(options, 'test')
  expect(read({ onSilence: 'open' })).toThrow('onSilence: found open; accepted: local, reject')
  expect(read({ prefix: 7 })).toThrow('prefix: found number; accepted')
  expect(read({ store: null })).toThrow('store: found null; accepted')
  expect(read({ logger: {} })).toThrow('logger: found one without warn')
})
