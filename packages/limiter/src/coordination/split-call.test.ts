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
import type { Here, HereOutcome, Waited } from './here.js'
import { SplitCall } from './split-call.js'

const OUTCOME = {
  remaining: 5,
  resetAfterMs: 100,
  retryAfterMs: 0,
  delayMs: 0,
  at: 1,
  staleMs: 7,
}
const granted: HereOutcome = { ...OUTCOME, granted: 1 }
const refused: HereOutcome = { ...OUTCOME, granted: 0, retryAfterMs: 30, staleMs: 9 }
const stored = { ...OUTCOME, granted: 1, remaining: 3 }

const WAIT_MS = 20

/** A draw that was not answered in time, and whether its call was let pass. */
function silentDraw(silence: Silence) {
  const draw = { silence, isAdmitted: false, admitted: () => void (draw.isAdmitted = true) }
  return draw
}

type Says = HereOutcome | Promise<Waited> | undefined

/** Answers each rule as it is told, and notes what is put back. */
class ToldHere implements Here {
  readonly putBacks: string[] = []
  readonly asked: string[] = []
  /** How long each take might wait. */
  readonly waits: number[] = []
  readonly unready = new Set<string>()
  readonly stats = new Map()
  readonly #says: Readonly<Record<string, Says>>

  constructor(says: Readonly<Record<string, Says>>) {
    this.#says = says
  }

  take({ of }: PlannedTake, waitMs: number): Says {
    this.asked.push(of.rule)
    this.waits.push(waitMs)
    return this.#says[of.rule]
  }

  isReady({ of }: PlannedTake): boolean {
    return !this.unready.has(of.rule)
  }

  putBack({ of }: PlannedTake): void {
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

function splitOf(rules: readonly object[], says: Readonly<Record<string, Says>>) {
  const here = new ToldHere(says)
  const split = new SplitCall(planOf(rules), ({ of }) =>
    of.coordination === 'exact' ? undefined : here,
  )
  return { here, split }
}

const idsOf = (split: SplitCall) =>
  split.rest?.groups.map((takes) => takes.map(({ of }) => of.rule))

describe('a call that is decided in two places', () => {
  test('leaves nothing for the store where this node decides it all', () => {
    const { split } = splitOf([rule('a', 'leased'), rule('b', 'local')], { a: granted, b: granted })
    expect(split.begin(WAIT_MS)).toBeUndefined()
    expect([split.rest, split.isRefused]).toEqual([undefined, false])
    expect(split.outcomes).toEqual([[granted, granted]])
    expect([split.source, split.staleMs]).toEqual(['local', 7])
  })

  test('leaves the store the limits that are not decided here, and puts both in their places', () => {
    const rules = [rule('a', 'leased'), rule('b', 'exact'), rule('c', 'leased')]
    const { split } = splitOf(rules, { a: granted, c: undefined })
    void split.begin(WAIT_MS)
    expect(idsOf(split)).toEqual([['b', 'c']])
    const other = { ...stored, remaining: 4 }
    expect(split.merge([[stored, other]])).toEqual([[granted, stored, other]])
    expect(split.source).toBe('lease')
  })

  test('that a limit here refuses asks nobody else, and puts back what others granted', () => {
    const rules = [rule('a', 'leased'), rule('b', 'leased'), rule('x', 'exact'), shadow('s')]
    const { here, split } = splitOf(rules, { a: granted, b: refused, s: granted })
    void split.begin(WAIT_MS)
    expect(split.isRefused).toBe(true)
    expect(split.rest).toBeUndefined()
    expect(here.putBacks).toEqual(['a'])
    expect(here.asked).toEqual(['a', 'b'])
    const { plan, outcomes } = split.refusal()
    expect(plan.groups.map((takes) => takes.map(({ of }) => of.rule))).toEqual([['b']])
    expect(outcomes).toEqual([[refused]])
  })

  test('puts back once what it was granted when the store refuses it', () => {
    const rules = [rule('a', 'leased'), rule('b', 'exact'), shadow('s')]
    const { here, split } = splitOf(rules, { a: granted, s: granted })
    void split.begin(WAIT_MS)
    expect(idsOf(split)).toEqual([['b']])
    split.putBack()
    split.putBack()
    expect(here.putBacks).toEqual(['a', 's'])
    expect(split.merge([[{ ...stored, granted: 0 }]])[0]?.[0]?.granted).toBe(0)
  })

  test('waits for a draw, and goes on with what it granted', async () => {
    const { split } = splitOf([rule('a', 'leased')], { a: Promise.resolve(granted) })
    await split.begin(WAIT_MS)
    expect(split.rest).toBeUndefined()
    expect(split.outcomes).toEqual([[granted]])
  })

  test('asks the store itself for what a draw did not bring', async () => {
    const { split } = splitOf([rule('a', 'leased')], { a: Promise.resolve<Waited>('ask') })
    await split.begin(WAIT_MS)
    expect(idsOf(split)).toEqual([['a']])
    expect(split.isSilent).toBe(false)
  })

  test('does not ask a store again that was silent to its draws, and knows the fate of each', async () => {
    const [ran, lost] = [silentDraw('unknown'), silentDraw('not-run')]
    const rules = ['a', 'b', 'c', 'd'].map((id) => rule(id, 'leased'))
    const { split } = splitOf([...rules, shadow('s')], {
      a: Promise.resolve<Waited>(ran),
      b: granted,
      c: Promise.resolve<Waited>(lost),
      d: Promise.resolve<Waited>('ask'),
      s: undefined,
    })
    await split.begin(WAIT_MS)
    expect(split.isSilent).toBe(true)
    expect(idsOf(split)).toEqual([['a', 'c', 'd'], ['s']])
    expect(split.silences).toEqual([['unknown', 'not-run', 'not-run'], ['not-run']])
    expect([ran.isAdmitted, lost.isAdmitted]).toEqual([false, false])
    split.admitted()
    expect([ran.isAdmitted, lost.isAdmitted]).toEqual([true, true])
  })

  test('of one limit goes on from the draw that it waits for', async () => {
    const draw = silentDraw('unknown')
    for (const waited of [granted, 'ask', draw] as const) {
      const { here, split } = splitOf([rule('a', 'leased')], {})
      await split.beginWith(Promise.resolve<Waited>(waited), here)
      expect(idsOf(split)).toEqual(waited === granted ? undefined : [['a']])
      expect(split.outcomes).toEqual(waited === granted ? [[granted]] : [[]])
      expect(split.isSilent).toBe(waited === draw)
      expect(here.asked).toEqual([])
    }
  })

  test('is refused by a draw that brought a refusal', async () => {
    const { here, split } = splitOf([rule('a', 'leased'), rule('b', 'leased')], {
      a: granted,
      b: Promise.resolve(refused),
    })
    await split.begin(WAIT_MS)
    expect(split.isRefused).toBe(true)
    expect(here.putBacks).toEqual(['a'])
  })
})

function shadow(id: string) {
  return rule(id, 'leased', 'shadow')
}

describe('a shadow group of such a call', () => {
  test('is decided here where it can be, and refuses nothing', () => {
    const { split } = splitOf([rule('a', 'leased'), shadow('s')], { a: granted, s: refused })
    void split.begin(WAIT_MS)
    expect([split.isRefused, split.rest]).toEqual([false, undefined])
    expect(split.outcomes).toEqual([[granted], [refused]])
  })

  test('goes to the store whole if one of its limits is not decided here', () => {
    const two = {
      ...shadow('s'),
      limits: ['100/second', { max: 9, window: '1h', onRefusal: 'charge', name: 'own' }],
    }
    const { here, split } = splitOf([rule('a', 'leased'), two, shadow('t')], {
      a: granted,
      s: granted,
      t: granted,
    })
    void split.begin(WAIT_MS)
    expect(idsOf(split)).toEqual([[], ['s', 's']])
    expect(split.rest?.shadows).toEqual(['s'])
    expect(here.putBacks).toEqual(['s'])
    expect(split.merge([[], [stored, stored]])).toEqual([[granted], [stored, stored], [granted]])
  })

  test('that a limit here refuses asks nothing of the store', () => {
    const two = {
      ...shadow('s'),
      limits: ['100/second', { max: 9, window: '1h', onRefusal: 'charge', name: 'own' }],
    }
    const { split } = splitOf([rule('a', 'leased'), two], { a: granted, s: refused })
    void split.begin(WAIT_MS)
    expect(split.rest).toBeUndefined()
    expect(split.outcomes).toEqual([[granted], [refused]])
  })
})

describe('how long such a call may wait for a draw', () => {
  test('is all of its time where no enforced limit needs the store, and nothing for shadows', () => {
    const rules = [rule('a', 'leased'), rule('b', 'local'), shadow('s')]
    const { here, split } = splitOf(rules, { a: granted, b: granted, s: granted })
    void split.begin(WAIT_MS)
    expect(here.waits).toEqual([WAIT_MS, WAIT_MS, 0])
  })

  test('is nothing beside a limit that the store decides: two trips would add up', () => {
    const { here, split } = splitOf([rule('a', 'leased'), rule('b', 'exact')], { a: undefined })
    void split.begin(WAIT_MS)
    expect(here.waits).toEqual([0])
    expect(idsOf(split)).toEqual([['a', 'b']])
  })

  test('is nothing beside a limit that is not known here yet', () => {
    const { here, split } = splitOf([rule('a', 'leased'), rule('b', 'leased')], { a: granted })
    here.unready.add('b')
    void split.begin(WAIT_MS)
    expect(here.waits).toEqual([0, 0])
  })
})

describe('a refusal here of a call with a limit that charges refusals', () => {
  const charging = {
    ...rule('c', 'exact'),
    limits: [{ max: 9, window: '1h', onRefusal: 'charge' }],
  }

  test('is left to the store with all of the call, and nothing stays granted here', () => {
    const rules = [rule('a', 'leased'), rule('b', 'leased'), charging, shadow('s')]
    const { here, split } = splitOf(rules, { a: granted, b: refused, s: granted })
    void split.begin(WAIT_MS)
    expect(split.isRefused).toBe(false)
    expect(here.putBacks).toEqual(['a'])
    expect(idsOf(split)).toEqual([['a', 'b', 'c']])
    expect(split.merge([[stored, stored, stored]])).toEqual([[stored, stored, stored], [granted]])
  })

  test('leaves what only nodes count decided here', () => {
    const rules = [rule('a', 'split'), rule('b', 'leased'), charging]
    const { here, split } = splitOf(rules, { a: granted, b: refused })
    void split.begin(WAIT_MS)
    expect(here.putBacks).toEqual([])
    expect(idsOf(split)).toEqual([['b', 'c']])
    expect(split.merge([[stored, stored]])).toEqual([[granted, stored, stored]])
    split.putBack()
    expect(here.putBacks).toEqual(['a'])
  })

  test('is final where only nodes count: the store would grant it', () => {
    const { split } = splitOf([rule('a', 'split'), charging], { a: refused })
    void split.begin(WAIT_MS)
    expect([split.isRefused, split.rest]).toEqual([true, undefined])
  })
})
