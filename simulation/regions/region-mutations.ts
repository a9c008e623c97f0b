/** Bugs put into the way in which regions tell each other, for the duration of a run. */
import { Outbox, RegionLink } from '@sluice/limiter/internal'
import { replace } from '../replace.js'

/**
 * Every change is noted in the outboxes of all other regions: those that were given the same one.
 */
type Change = Parameters<Outbox['spend']>[0]

export const REGION_MUTATIONS = {
  /** What may have run is told again. */
  'told-twice': () =>
    changeCharges((charge) => async (telling) => {
      try {
        await charge(telling)
      } catch (error) {
        throw Object.assign(new Error('told again'), { silence: 'not-run', cause: error })
      }
    }),
  /** Units are told as of when they are sent. */
  'told-untimed': () =>
    replace(
      Outbox.prototype,
      'drain',
      (drain) =>
        function (this: Outbox, most, now) {
          return drain.call(this, most, now).map((report) => ({
            ...report,
            spent: report.spent.map(({ amount }) => ({ amount, at: now })),
          }))
        },
    ),
  /** What one region was told is told on to the others. */
  'relayed-relay': () => relayTwice(),
  /** What certainly did not run is not told later. */
  'untold-rest': () => replace(Outbox.prototype, 'restore', () => () => {}),
  /** Rounds are skipped: only every third is sent. */
  'late-round': () => {
    const rounds = new WeakMap<RegionLink, number>()
    return replace(
      RegionLink.prototype,
      'sendRound',
      (sendRound) =>
        function (this: RegionLink) {
          const round = (rounds.get(this) ?? 0) + 1
          rounds.set(this, round)
          if (round % 3 === 0) sendRound.call(this)
        },
    )
  },
  /** Other regions charge a bucket without debt, and so lose what it cannot hold. */
  'debtless-charge': () => changeCharges((charge) => (telling) => charge({ ...telling, debt: 0 })),
} as const satisfies Record<string, () => () => void>

type Charge = RegionLink['store']['charge']

/** Changes how links charge the stores of other regions. */
function changeCharges(change: (charge: Charge) => Charge): () => void {
  const changed = new WeakSet<object>()
  return replace(
    RegionLink.prototype,
    'sendRound',
    (sendRound) =>
      function (this: RegionLink) {
        if (!changed.has(this.store)) {
          changed.add(this.store)
          const charge = this.store.charge.bind(this.store)
          this.store.charge = change(charge)
        }
        sendRound.call(this)
      },
  )
}

function relayTwice(): () => void {
  const siblings = new WeakMap<Outbox, Set<Outbox>>()
  let last: { change: Change; outboxes: Set<Outbox> } | undefined
  const restoreSpend = replace(
    Outbox.prototype,
    'spend',
    (spend) =>
      function (this: Outbox, change) {
        if (last?.change !== change) last = { change, outboxes: new Set() }
        last.outboxes.add(this)
        siblings.set(this, last.outboxes)
        spend.call(this, change)
      },
  )
  const restoreDrain = replace(
    Outbox.prototype,
    'drain',
    (drain) =>
      function (this: Outbox, most, now) {
        const reports = drain.call(this, most, now)
        for (const report of reports) {
          for (const other of siblings.get(this) ?? []) {
            if (other === this) continue
            for (const usage of report.spent) other.restore(report, usage, 'spent')
          }
        }
        return reports
      },
  )
  return () => {
    restoreDrain()
    restoreSpend()
  }
}
