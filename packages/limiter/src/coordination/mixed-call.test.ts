import {
  compileRules,
  matchRules,
  parseRules,
  type Plan,
  type PlannedTake,
  planCall,
  sipKey,
} from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { call } from '../limiter.test-helper.js'
import type { Silence } from '../store.js'
import type { NodeDecider, NodeOutcome, DrawResult } from './node-decider.js'
import { MixedCall } from './mixed-call.js'

const OUTCOME = {
  remaining: 5,
  resetAfterMs: 100,
  retryAfterMs: 0,
  delayMs: 0,
  at: 1,
  staleMs: 7,
}
const granted: NodeOutcome = { ...OUTCOME, granted: 1 }
const refused: NodeOutcome = { ...OUTCOME, granted: 0, retryAfterMs: 30, staleMs: 9 }
const stored = { ...OUTCOME, granted: 1, remaining: 3 }

const WAIT_MS = 20

/** A draw that was not answered in time, and whether its call was admitted. */
function silentDraw(silence: Silence) {
  const draw = { silence, isAdmitted: false, onAdmitted: () => void (draw.isAdmitted = true) }
  return draw
}

type ScriptedAnswer = NodeOutcome | Promise<DrawResult> | undefined

/** Answers each rule as scripted, and records what is put back. */
class ScriptedDecider implements NodeDecider {
  readonly putBacks: string[] = []
  readonly takenRules: string[] = []
  /** How long each take might wait. */
  readonly waits: number[] = []
  readonly unready = new Set<string>()
  readonly stats = new Map()
  readonly #says: Readonly<Record<string, ScriptedAnswer>>

  constructor(says: Readonly<Record<string, ScriptedAnswer>>) {
    this.#says = says
  }

  take({ compiled: of }: PlannedTake, waitMs: number): ScriptedAnswer {
    this.takenRules.push(of.rule)
    this.waits.push(waitMs)
    return this.#says[of.rule]
  }

  isReady({ compiled: of }: PlannedTake): boolean {
    return !this.unready.has(of.rule)
  }

  putBack({ compiled: of }: PlannedTake): void {
    this.putBacks.push(of.rule)
  }

  forget(): void {}
  async close(): Promise<void> {}
}

const rule = (id: string, coordination: string, mode = 'enforce') => ({
  id,
  by: ['user'],
  limits: ['100/second'],
  coordination,
  mode,
})

function planOf(rules: readonly object[]): Plan {
  const parsed = parseRules([...rules])
  if (parsed.rules === undefined) throw new Error(JSON.stringify(parsed.errors))
  const snapshot = compileRules(parsed.rules, { secret: sipKey(new Uint8Array(16)) })
  const one = call({ user: 'u1' })
  return planCall(matchRules(snapshot, one, 0), one)
}

function mixedCallOf(rules: readonly object[], says: Readonly<Record<string, ScriptedAnswer>>) {
  const decider = new ScriptedDecider(says)
  const mixed = new MixedCall(planOf(rules), ({ compiled: of }) =>
    of.coordination === 'exact' ? undefined : decider,
  )
  return { here: decider, split: mixed }
}

const idsOf = (mixed: MixedCall) =>
  mixed.rest?.groups.map((takes) => takes.map(({ compiled: of }) => of.rule))

describe('MixedCall', () => {
  test('a mixed call leaves nothing to the store if this node decides all of it', () => {
    const { split: mixed } = mixedCallOf([rule('a', 'leased'), rule('b', 'local')], {
      a: granted,
      b: granted,
    })
    expect(mixed.begin(WAIT_MS)).toBeUndefined()
    expect([mixed.rest, mixed.isRefused]).toEqual([undefined, false])
    expect(mixed.outcomes).toEqual([[granted, granted]])
    expect([mixed.source, mixed.staleMs]).toEqual(['local', 7])
  })

  test('a mixed call leaves the store the limits that are not decided on this node, and puts both in their places', () => {
    const rules = [rule('a', 'leased'), rule('b', 'exact'), rule('c', 'leased')]
    const { split: mixed } = mixedCallOf(rules, { a: granted, c: undefined })
    void mixed.begin(WAIT_MS)
    expect(idsOf(mixed)).toEqual([['b', 'c']])
    const other = { ...stored, remaining: 4 }
    expect(mixed.merge([[stored, other]])).toEqual([[granted, stored, other]])
    expect(mixed.source).toBe('lease')
  })

  test('a mixed call that this node refuses does not reach the store, and puts back what other limits granted', () => {
    const rules = [rule('a', 'leased'), rule('b', 'leased'), rule('x', 'exact'), shadow('s')]
    const { here: decider, split: mixed } = mixedCallOf(rules, {
      a: granted,
      b: refused,
      s: granted,
    })
    void mixed.begin(WAIT_MS)
    expect(mixed.isRefused).toBe(true)
    expect(mixed.rest).toBeUndefined()
    expect(decider.putBacks).toEqual(['a'])
    expect(decider.takenRules).toEqual(['a', 'b'])
    const { plan, outcomes } = mixed.refusal()
    expect(plan.groups.map((takes) => takes.map(({ compiled: of }) => of.rule))).toEqual([['b']])
    expect(outcomes).toEqual([[refused]])
  })

  test('a mixed call puts back once what it was granted when the store refuses it', () => {
    const rules = [rule('a', 'leased'), rule('b', 'exact'), shadow('s')]
    const { here: decider, split: mixed } = mixedCallOf(rules, { a: granted, s: granted })
    void mixed.begin(WAIT_MS)
    expect(idsOf(mixed)).toEqual([['b']])
    mixed.putBack()
    mixed.putBack()
    expect(decider.putBacks).toEqual(['a', 's'])
    expect(mixed.merge([[{ ...stored, granted: 0 }]])[0]?.[0]?.granted).toBe(0)
  })

  test('a mixed call waits for a draw, and goes on with what it granted', async () => {
    const { split: mixed } = mixedCallOf([rule('a', 'leased')], { a: Promise.resolve(granted) })
    await mixed.begin(WAIT_MS)
    expect(mixed.rest).toBeUndefined()
    expect(mixed.outcomes).toEqual([[granted]])
  })

  test('a mixed call leaves to the store what a draw did not bring', async () => {
    const { split: mixed } = mixedCallOf([rule('a', 'leased')], {
      a: Promise.resolve<DrawResult>('store'),
    })
    await mixed.begin(WAIT_MS)
    expect(idsOf(mixed)).toEqual([['a']])
    expect(mixed.isSilent).toBe(false)
  })

  test('a mixed call does not send again to a store that left its draws unanswered, and knows their fates', async () => {
    const [ran, lost] = [silentDraw('unknown'), silentDraw('not-run')]
    const rules = ['a', 'b', 'c', 'd'].map((id) => rule(id, 'leased'))
    const { split: mixed } = mixedCallOf([...rules, shadow('s')], {
      a: Promise.resolve<DrawResult>(ran),
      b: granted,
      c: Promise.resolve<DrawResult>(lost),
      d: Promise.resolve<DrawResult>('store'),
      s: undefined,
    })
    await mixed.begin(WAIT_MS)
    expect(mixed.isSilent).toBe(true)
    expect(idsOf(mixed)).toEqual([['a', 'c', 'd'], ['s']])
    expect(mixed.silences).toEqual([['unknown', 'not-run', 'not-run'], ['not-run']])
    expect([ran.isAdmitted, lost.isAdmitted]).toEqual([false, false])
    mixed.onAdmitted()
    expect([ran.isAdmitted, lost.isAdmitted]).toEqual([true, true])
  })

  test('a mixed call of one limit continues with the draw that it waits for', async () => {
    const draw = silentDraw('unknown')
    for (const waited of [granted, 'store', draw] as const) {
      const { here: decider, split: mixed } = mixedCallOf([rule('a', 'leased')], {})
      await mixed.beginWith(Promise.resolve<DrawResult>(waited), decider)
      expect(idsOf(mixed)).toEqual(waited === granted ? undefined : [['a']])
      expect(mixed.outcomes).toEqual(waited === granted ? [[granted]] : [[]])
      expect(mixed.isSilent).toBe(waited === draw)
      expect(decider.takenRules).toEqual([])
    }
  })

  test('a mixed call is refused by a draw that brought a refusal', async () => {
    const { here: decider, split: mixed } = mixedCallOf(
      [rule('a', 'leased'), rule('b', 'leased')],
      {
        a: granted,
        b: Promise.resolve(refused),
      },
    )
    await mixed.begin(WAIT_MS)
    expect(mixed.isRefused).toBe(true)
    expect(decider.putBacks).toEqual(['a'])
  })
})

function shadow(id: string) {
  return rule(id, 'leased', 'shadow')
}

describe('shadow groups of a mixed call', () => {
  test('a shadow group of a mixed call is decided on this node if possible, and refuses nothing', () => {
    const { split: mixed } = mixedCallOf([rule('a', 'leased'), shadow('s')], {
      a: granted,
      s: refused,
    })
    void mixed.begin(WAIT_MS)
    expect([mixed.isRefused, mixed.rest]).toEqual([false, undefined])
    expect(mixed.outcomes).toEqual([[granted], [refused]])
  })

  test('a shadow group of a mixed call goes to the store whole if one of its limits is not decided on this node', () => {
    const two = {
      ...shadow('s'),
      limits: ['100/second', { max: 9, window: '1h', onRefusal: 'charge', name: 'own' }],
    }
    const { here: decider, split: mixed } = mixedCallOf([rule('a', 'leased'), two, shadow('t')], {
      a: granted,
      s: granted,
      t: granted,
    })
    void mixed.begin(WAIT_MS)
    expect(idsOf(mixed)).toEqual([[], ['s', 's']])
    expect(mixed.rest?.shadows).toEqual(['s'])
    expect(decider.putBacks).toEqual(['s'])
    expect(mixed.merge([[], [stored, stored]])).toEqual([[granted], [stored, stored], [granted]])
  })

  test('a shadow group of a mixed call that this node refuses does not reach the store', () => {
    const two = {
      ...shadow('s'),
      limits: ['100/second', { max: 9, window: '1h', onRefusal: 'charge', name: 'own' }],
    }
    const { split: mixed } = mixedCallOf([rule('a', 'leased'), two], { a: granted, s: refused })
    void mixed.begin(WAIT_MS)
    expect(mixed.rest).toBeUndefined()
    expect(mixed.outcomes).toEqual([[granted], [refused]])
  })
})

describe('waiting for draws', () => {
  test('a mixed call may wait its whole deadline for a draw if no enforced limit needs the store; shadow limits wait for none', () => {
    const rules = [rule('a', 'leased'), rule('b', 'local'), shadow('s')]
    const { here: decider, split: mixed } = mixedCallOf(rules, {
      a: granted,
      b: granted,
      s: granted,
    })
    void mixed.begin(WAIT_MS)
    expect(decider.waits).toEqual([WAIT_MS, WAIT_MS, 0])
  })

  test('a mixed call waits for no draw beside a limit that the store decides: two round trips would add up', () => {
    const { here: decider, split: mixed } = mixedCallOf([rule('a', 'leased'), rule('b', 'exact')], {
      a: undefined,
    })
    void mixed.begin(WAIT_MS)
    expect(decider.waits).toEqual([0])
    expect(idsOf(mixed)).toEqual([['a', 'b']])
  })

  test('a mixed call waits for no draw beside a limit that this node does not know yet', () => {
    const { here: decider, split: mixed } = mixedCallOf(
      [rule('a', 'leased'), rule('b', 'leased')],
      { a: granted },
    )
    decider.unready.add('b')
    void mixed.begin(WAIT_MS)
    expect(decider.waits).toEqual([0, 0])
  })
})

describe('refusals that must be charged', () => {
  const charging = {
    ...rule('c', 'exact'),
    limits: [{ max: 9, window: '1h', onRefusal: 'charge' }],
  }

  test('a refusal that must be charged is left to the store with the whole call, and nothing stays granted on this node', () => {
    const rules = [rule('a', 'leased'), rule('b', 'leased'), charging, shadow('s')]
    const { here: decider, split: mixed } = mixedCallOf(rules, {
      a: granted,
      b: refused,
      s: granted,
    })
    void mixed.begin(WAIT_MS)
    expect(mixed.isRefused).toBe(false)
    expect(decider.putBacks).toEqual(['a'])
    expect(idsOf(mixed)).toEqual([['a', 'b', 'c']])
    expect(mixed.merge([[stored, stored, stored]])).toEqual([[stored, stored, stored], [granted]])
  })

  test('a refusal that the store must charge leaves split limits decided on this node', () => {
    const rules = [rule('a', 'split'), rule('b', 'leased'), charging]
    const { here: decider, split: mixed } = mixedCallOf(rules, { a: granted, b: refused })
    void mixed.begin(WAIT_MS)
    expect(decider.putBacks).toEqual([])
    expect(idsOf(mixed)).toEqual([['b', 'c']])
    expect(mixed.merge([[stored, stored]])).toEqual([[granted, stored, stored]])
    mixed.putBack()
    expect(decider.putBacks).toEqual(['a'])
  })

  test.each(['split', 'local'] as const)(
    'a refusal by a %s limit is final, because the store would grant it',
    (coordination) => {
      const { split: mixed } = mixedCallOf([rule('a', coordination), charging], { a: refused })
      void mixed.begin(WAIT_MS)
      expect([mixed.isRefused, mixed.rest]).toEqual([true, undefined])
    },
  )
})
