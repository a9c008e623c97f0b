import { describe, expect, test } from 'vitest'
import { ClockOffsets, ClockSpread, type PeerClock } from './clock-offset.js'
import { nodeWith } from './conditions.test-helper.js'

const OWN = { id: 'n1', host: 'web-1' }

/** A Redis node whose clock is this far ahead of ours. */
const redisAt = (offsetSeconds: number, errorSeconds = 0, address = 'a') =>
  nodeWith({ address, clock: { offsetSeconds, errorSeconds } })

/** Another node, which measures the clock of Redis as this far ahead of its own. */
const peerAt = (host: string, offsetMs: number, store = 'a'): PeerClock => ({
  id: `n-${host}`,
  host,
  offsets: [{ store, offsetMs }],
})

const judge = (nodes: readonly ReturnType<typeof redisAt>[], peers: readonly PeerClock[] = []) => {
  const offsets = new ClockOffsets(OWN)
  offsets.evaluate(nodes, () => peers)
  offsets.evaluate(nodes, () => peers)
  return offsets.evaluate(nodes, () => peers)
}

const subjectsOf = (findings: readonly { readonly subject: string }[]) =>
  findings.map(({ subject }) => subject)

describe('a clock that is off', () => {
  test('is found after three ticks beyond 20 ms, in either direction', () => {
    const offsets = new ClockOffsets(OWN)
    for (let i = 0; i < 5; i++) expect(offsets.evaluate([redisAt(0.02)])).toEqual([])
    for (let i = 0; i < 2; i++) expect(offsets.evaluate([redisAt(-0.021)])).toEqual([])
    expect(offsets.evaluate([redisAt(-0.021)])).toMatchObject([
      { subject: 'n1', details: { offsetMs: 21 } },
    ])
    expect(offsets.evaluate([redisAt(0.0301)])[0]?.summary).toBe(
      'The clock of node n1 on web-1 is 30.1 ms behind that of Redis at a; they must agree within 20 ms.',
    )
    expect(offsets.evaluate([redisAt(0)])).toEqual([])
    expect(offsets.evaluate([redisAt(0.03)])).toEqual([])
  })

  test('is off only beyond the error of its reading', () => {
    expect(judge([redisAt(0.05, 0.031)])).toEqual([])
    expect(judge([redisAt(0.05, 0.029)])).toHaveLength(1)
  })

  test('is not compared with a Redis that does not answer or whose clock is unknown', () => {
    const nodes = [{ ...redisAt(1), isAnswering: false }, nodeWith({ clock: undefined })]
    expect(judge(nodes)).toEqual([])
  })

  test('of a node an hour behind is reported in hours, with the node and its host', () => {
    expect(judge([redisAt(3599.9996)])).toEqual([
      {
        subject: 'n1',
        summary:
          'The clock of node n1 on web-1 is 1 h behind that of Redis at a; they must agree within 20 ms.',
        past: 'The clock of node n1 on web-1 was 1 h behind that of Redis at a; they must agree within 20 ms.',
        details: { node: 'n1', host: 'web-1', store: 'a', offsetMs: -3_599_999.6, errorMs: 0 },
      },
    ])
  })

  test('of a node is one alert, however many Redis nodes there are', () => {
    const nodes = ['a', 'b', 'c'].map((address) => redisAt(3600, 0, address))
    expect(subjectsOf(judge(nodes))).toEqual(['n1'])
  })

  test('of one Redis among several is attributed to that Redis', () => {
    expect(judge([redisAt(0.2, 0, 'a'), redisAt(0, 0, 'b')])).toMatchObject([
      {
        subject: 'a',
        summary:
          'The clock of Redis at a is 200 ms ahead of the other clocks; they must agree within 20 ms.',
        details: { store: 'a', offsetMs: 200 },
      },
    ])
  })

  test('is attributed to this node if the other nodes agree with Redis', () => {
    const peers = [peerAt('web-2', 0), peerAt('web-3', 1)]
    expect(subjectsOf(judge([redisAt(3600)], peers))).toEqual(['n1'])
  })

  test('is attributed to Redis if other machines agree with this node', () => {
    const peers = [peerAt('web-2', 3_600_000), peerAt('web-3', 3_600_001)]
    expect(subjectsOf(judge([redisAt(3600)], peers))).toEqual(['a'])
  })

  test('is not hidden by further processes of the same machine', () => {
    const peers = [peerAt('web-1', 3_600_000), peerAt('web-1', 3_600_000), peerAt('web-2', 0)]
    expect(subjectsOf(judge([redisAt(3600)], peers))).toEqual(['n1'])
  })

  test('is attributed to this node and to Redis if the other machines agree with neither', () => {
    const peers = ['web-2', 'web-3', 'web-4'].map((host) => peerAt(host, 3_600_000))
    expect(subjectsOf(judge([redisAt(1800)], peers))).toEqual(['n1', 'a'])
  })

  test("is reported by one worker if it is this machine's, and by all of them if it is of Redis", () => {
    const evaluate = (nodes: readonly ReturnType<typeof redisAt>[]) => {
      const offsets = new ClockOffsets(OWN, false)
      return [1, 2, 3].flatMap(() => offsets.evaluate(nodes))
    }
    expect(evaluate([redisAt(3600)])).toEqual([])
    expect(subjectsOf(evaluate([redisAt(0.2, 0, 'a'), redisAt(0, 0, 'b')]))).toEqual(['a'])
  })

  test('is judged without the other nodes only if they cannot be read for long', () => {
    const offsets = new ClockOffsets(OWN)
    const evaluate = () => offsets.evaluate([redisAt(3600)], () => undefined)
    const found = Array.from({ length: 12 }, () => evaluate().length)
    expect(found).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1])
  })

  test('causes the other clocks to be read only while one is off', () => {
    const offsets = new ClockOffsets(OWN)
    let requests = 0
    const peers = () => {
      requests++
      return []
    }
    for (let i = 0; i < 5; i++) offsets.evaluate([redisAt(0.001)], peers)
    expect(requests).toBe(0)
    offsets.evaluate([redisAt(1)], peers)
    expect(requests).toBe(1)
  })
})

describe('clocks of Redis', () => {
  test('are found if two differ by more than 20 ms, whatever the clock of this node', () => {
    const spread = new ClockSpread()
    const nodes = [redisAt(0.105, 0.001, 'a'), redisAt(0.12, 0, 'b'), redisAt(0.09, 0.001, 'c')]
    expect([0, 1, 2].map(() => spread.evaluate(nodes).length)).toEqual([0, 0, 1])
    expect(spread.evaluate(nodes)).toEqual([
      {
        subject: '',
        summary:
          'The clock of Redis at b is 30 ms ahead of that at c; they must agree within 20 ms.',
        past: 'The clock of Redis at b was 30 ms ahead of that at c; they must agree within 20 ms.',
        details: { spreadMs: 30, stores: ['b', 'c'] },
      },
    ])
    expect(spread.evaluate([redisAt(0.105, 0, 'a'), redisAt(0.12, 0, 'b')])).toEqual([])
    expect(spread.evaluate([redisAt(5, 0, 'a')])).toEqual([])
    expect(spread.evaluate([])).toEqual([])
  })

  test('differ only beyond the errors of both readings', () => {
    const spread = new ClockSpread()
    const nodes = [redisAt(0.03, 0.006, 'a'), redisAt(0, 0.005, 'b')]
    for (let i = 0; i < 5; i++) expect(spread.evaluate(nodes)).toEqual([])
  })
})
