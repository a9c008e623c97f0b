import type { StoreNodeHealth } from '@sluice/limiter'
import type { RingStats } from '@sluice/limiter/ring'
import { describe, expect, test } from 'vitest'
import { RingSilence, RingViews } from './ring.js'

const node = (address: string, isAnswering: boolean): StoreNodeHealth => ({
  address,
  isAnswering,
  isBreakerOpen: false,
  breakerOpened: 0,
  clock: undefined,
  inFlight: 0,
  queuedTakes: 0,
})

const remote = (...nodes: StoreNodeHealth[]) => ({
  state: 'ready' as const,
  nodes,
  fleet: { size: nodes.length, ageMs: 0 },
})

const ring = (given: Partial<RingStats>): RingStats => ({
  members: [],
  forwarded: new Map(),
  deputy: 0,
  handedOver: { sent: 0, unknown: 0, received: 0 },
  misplaced: 0,
  differing: new Map(),
  isListed: true,
  ...given,
})

const subjects = (findings: readonly { readonly subject: string }[]) =>
  findings.map(({ subject }) => subject)

describe('a member of a ring', () => {
  test('that does not answer is reported after ten seconds, until it answers', () => {
    const silence = new RingSilence()
    const silent = remote(node('a', true), node('b', false))
    for (let second = 0; second < 9; second++) expect(silence.evaluate(silent)).toEqual([])
    expect(subjects(silence.evaluate(silent))).toEqual(['b'])
    expect(silence.evaluate(remote(node('a', true), node('b', true)))).toEqual([])
    expect(silence.evaluate(undefined)).toEqual([])
  })

  test('that knows other members is reported after half a minute', () => {
    const views = new RingViews()
    expect(views.evaluate(ring({ differing: new Map([['b', 29_999]]) }))).toEqual([])
    const found = views.evaluate(ring({ differing: new Map([['b', 30_000]]) }))
    expect(found).toMatchObject([{ subject: 'b', details: { forSeconds: 30 } }])
    expect(views.evaluate(undefined)).toEqual([])
  })

  test('that is not in the list itself is reported after half a minute', () => {
    const views = new RingViews()
    const unlisted = ring({ isListed: false })
    for (let second = 0; second < 29; second++) expect(views.evaluate(unlisted)).toEqual([])
    expect(subjects(views.evaluate(unlisted))).toEqual([''])
  })
})
