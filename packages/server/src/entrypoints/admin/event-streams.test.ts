import { describe, expect, test } from 'vitest'
import { createMemoryLog } from '../../observability/log/memory-log.test-helper.js'
import { manualScheduler, settle } from '../../lib/manual-scheduler.test-helper.js'
import type { FleetStatsReader } from './admin-deps.js'
import { type EventStreamsDeps, EventStreams } from './event-streams.js'
import { ALERT, END_MS, fakeAlerts, fakeFleetStats, TICK } from './fleet-stats-fake.test-helper.js'

function eventsOf(more: Partial<FleetStatsReader> = {}) {
  const timers = manualScheduler()
  const clock = { now: () => timers.nowMs() }
  const { log, lines } = createMemoryLog('debug', clock)
  const alerting = { active: [ALERT], recent: [] }
  const sight = fakeFleetStats({ alerts: async () => alerting, ...more })
  const alerts = fakeAlerts()
  const rules = { version: 1 }
  const source = { version: () => rules.version } as EventStreamsDeps['ruleFollower']
  const events = new EventStreams({
    fleetStats: sight,
    alerts,
    ruleFollower: source,
    log,
    clock,
    timers,
  })
  return { events, timers, sight, alerts, rules, lines }
}

interface Opened {
  isLetIn: boolean
  wasCut: boolean
  readonly reader: ReadableStreamDefaultReader<Uint8Array>
}

function open(events: EventStreams, who = 'root'): Opened {
  const state = { isLetIn: true, wasCut: false }
  const stream = events.open({
    tokenId: who,
    isStillAuthenticated: () => state.isLetIn,
    cut: () => {
      state.wasCut = true
    },
  })
  return Object.assign(state, { reader: stream.getReader() })
}

/** All chunks that are available now; `end` at the end. */
async function read({ reader }: Opened): Promise<readonly string[]> {
  const texts: string[] = []
  for (;;) {
    const piece = await Promise.race([reader.read(), settle()])
    if (piece === undefined) return texts
    texts.push(piece.done ? 'end' : new TextDecoder().decode(piece.value))
    if (piece.done) return texts
  }
}

const tick = `id: ${END_MS}\nevent: tick\ndata: ${JSON.stringify({ ...TICK, alertsActive: 1 })}\n\n`

/** The kinds of the chunks: `tick`, `rules`, `retry`. */
const namesOf = (texts: readonly string[]) =>
  texts.map((text) => /^event: (\w+)/m.exec(text)?.[1] ?? text.split(':')[0])

describe('an event stream', () => {
  test('begins with its retry time and a tick, and has a tick every two seconds', async () => {
    const { events, timers } = eventsOf()
    const stream = open(events)
    await settle()
    expect(await readNow(stream, 2)).toEqual(['retry: 2000\n\n', tick])
    await timers.advance(6000)
    expect(await readNow(stream, 3)).toEqual([tick, tick, tick])
  })

  test('begins with the last tick if it is opened between two', async () => {
    const { events, timers, sight } = eventsOf()
    open(events)
    await timers.advance(1000)
    const second = open(events)
    expect(await readNow(second, 2)).toEqual(['retry: 2000\n\n', tick])
    expect(sight.requests).toEqual(['tick'])
  })

  test('shares its statistics with all others, computed once', async () => {
    const { events, timers, sight } = eventsOf()
    const streams = Array.from({ length: 32 }, () => open(events))
    await timers.advance(4000)
    expect(sight.requests).toEqual(['tick', 'tick', 'tick'])
    for (const stream of streams) expect(namesOf(await readNow(stream, 4))).toHaveLength(4)
  })

  test('reports changed rules within a quarter of a second, and alerts at once', async () => {
    const { events, timers, rules, alerts } = eventsOf()
    const stream = open(events)
    await settle()
    await readNow(stream, 2)
    alerts.change(ALERT)
    rules.version = 7
    await timers.advance(250)
    expect(await readNow(stream, 2)).toEqual([
      `event: alert\ndata: ${JSON.stringify(ALERT)}\n\n`,
      'event: rules\ndata: {"version":7}\n\n',
    ])
  })

  test('ends at the first tick after its token ended, and others go on', async () => {
    const { events, timers } = eventsOf()
    const [ended, other] = [open(events), open(events)]
    ended.isLetIn = false
    await timers.advance(2000)
    expect(namesOf(await readNow(ended, 3))).toEqual(['retry', 'tick', 'end'])
    expect(events.count()).toBe(1)
    expect(namesOf(await readNow(other, 3))).toEqual(['retry', 'tick', 'tick'])
  })

  test('that reads nothing is cut, and delays no other', async () => {
    const store = { ...TICK.store, state: 'x'.repeat(40_000) }
    const { events, timers } = eventsOf({ tick: async () => ({ ...TICK, store }) })
    const [silent, reading] = [open(events), open(events)]
    for (let i = 0; i < 8; i++) {
      await timers.advance(2000)
      await readNow(reading, 1)
    }
    expect([silent.wasCut, reading.wasCut, events.count()]).toEqual([true, false, 1])
  })
})

/** Reads so many chunks that are available. */
async function readNow(stream: Opened, count: number): Promise<readonly string[]> {
  const texts: string[] = []
  while (texts.length < count) {
    const { done, value } = await stream.reader.read()
    texts.push(done ? 'end' : new TextDecoder().decode(value))
    if (done) break
  }
  return texts
}

describe('event streams', () => {
  test('are limited to 32 per token, independent of other tokens, and a closed one frees its place', async () => {
    const { events } = eventsOf()
    const streams = Array.from({ length: 32 }, () => open(events))
    expect(() => open(events)).toThrow(
      'This token has 32 open event streams. Each process has up to 32',
    )
    expect(() => open(events, 'another')).not.toThrow()
    await streams[5]?.reader.cancel()
    expect(() => open(events)).not.toThrow()
    expect(() => open(events)).toThrow('This token has 32 open event streams')
  })

  test('are limited to 64 in total', async () => {
    const { events } = eventsOf()
    for (let i = 0; i < 64; i++) open(events, `holder ${i}`)
    expect(() => open(events, 'one more')).toThrow(
      '64 event streams are open. Each process has up to 32',
    )
  })

  test('cost nothing while there are no listeners', async () => {
    const { events, timers, sight, alerts } = eventsOf()
    const stream = open(events)
    expect(alerts.listeners()).toBe(1)
    await stream.reader.cancel()
    expect([events.count(), alerts.listeners()]).toEqual([0, 0])
    const before = sight.requests.length
    await timers.advance(60_000)
    expect(sight.requests).toHaveLength(before)
  })

  test('start again with the next listener, with new statistics', async () => {
    const { events, timers, sight } = eventsOf()
    await open(events).reader.cancel()
    await timers.advance(10_000)
    const again = open(events)
    await settle()
    expect(namesOf(await readNow(again, 2))).toEqual(['retry', 'tick'])
    expect(sight.requests).toEqual(['tick', 'tick'])
  })

  test('without statistics contain a comment, and a line is logged', async () => {
    const { events, timers, lines } = eventsOf({ tick: () => Promise.reject(new Error('gone')) })
    const stream = open(events)
    await timers.advance(2000)
    expect(await readNow(stream, 3)).toEqual([
      'retry: 2000\n\n',
      ': no figures\n\n',
      ': no figures\n\n',
    ])
    expect(lines).toMatchObject([
      { msg: 'failed to read statistics for event streams', error: 'Error: gone' },
      { msg: 'failed to read statistics for event streams' },
    ])
  })

  test('do not request statistics again before the last request ended', async () => {
    let answer: (tick: typeof TICK) => void = () => undefined
    let asked = 0
    const { events, timers } = eventsOf({
      tick: () => {
        asked++
        return new Promise((resolve) => {
          answer = resolve
        })
      },
    })
    const stream = open(events)
    await timers.advance(10_000)
    expect(asked).toBe(1)
    answer(TICK)
    await settle()
    expect(namesOf(await readNow(stream, 2))).toEqual(['retry', 'tick'])
  })

  test('all end when the server stops, and none is opened afterwards', async () => {
    const { events, alerts } = eventsOf()
    const streams = [open(events), open(events)]
    await settle()
    events.close()
    for (const stream of streams) {
      expect(namesOf(await read(stream))).toEqual(['retry', 'tick', 'end'])
    }
    expect([events.count(), alerts.listeners()]).toEqual([0, 0])
    expect(() => open(events)).toThrow('The server is stopping')
  })
})
