/**
 * The store grants no more than the algorithm allows: over-admission of an exact rule is 0.
 *
 * By the store's own clock, in every interval t, what it granted less what came back is at most
 * what the algorithm admits at once plus its rate times t; in a fixed window at most max; in any
 * window of a log at most max. A failover or a step of the store's clock adds at most one limit
 * each: a counter can only fall back to an older value, and a window be opened once more. So does a
 * reset. Of a counter with several limits, by tiers or changes, the largest holds, and what one of
 * them cannot hold is forgotten.
 */
import type { Done } from '../server.js'
import { type Counter, isEver, mostOf, nameOf } from '../counter.js'
import { grantsOf, type Truth } from '../truth.js'
import type { MakeInvariant } from './invariant.js'
import { atOnce, Meter, perUs } from './meter.js'

export const storeBound: MakeInvariant = (truth) => {
  const books = new Map<string, Book>()
  const bookOf = (counter: Counter) => {
    const known = books.get(counter.name) ?? bookFor(counter)
    books.set(counter.name, known)
    return known
  }
  return {
    name: 'the store grants no more than the limit',
    onDone: (done) => {
      takeBack(done, truth, bookOf)
      for (const { take, granted, at } of grantsOf(done.request, done.reply)) {
        const counter = truth.counters.get(nameOf(take.key))
        if (counter === undefined || isEver(counter, 'local')) continue
        const excess = bookOf(counter).add(granted, at, done.storeUs)
        const events = truth.upsets.length + counter.resetsUs.length
        const forgiven = counter.forgiven.reduce((sum, { units }) => sum + units, 0)
        const allowed = events * mostOf(counter, atOnce) + forgiven
        if (excess <= allowed) continue
        return `${excess.toFixed(3)} above the limit of ${counter.rule} at ${done.storeUs}`
      }
      return undefined
    },
  }
}

interface Book {
  /** `at` is the time that the units belong to. */
  add(units: number, at: number, nowUs: number): number
  take(units: number, at: number): void
}

function bookFor(counter: Counter): Book {
  const [of] = counter.variants
  const { windowUs = 1, algorithm } = of?.limit ?? {}
  const max = () => mostOf(counter, (limit) => limit.max)
  if (algorithm === 'fixed-window') {
    const counts = new Map<number, number>()
    const change = (at: number, by: number) => {
      const window = Math.floor(at / windowUs)
      const count = Math.max(0, (counts.get(window) ?? 0) + by)
      counts.set(window, count)
      return count - max()
    }
    return {
      add: (units, at) => change(at, units),
      take: (units, at) => void change(at, -units),
    }
  }
  if (algorithm === 'sliding-window-log') return logBook(windowUs, max)
  const meter = new Meter(0, 0)
  return {
    add: (units, _, nowUs) => {
      meter.widen(mostOf(counter, atOnce), mostOf(counter, perUs))
      return meter.add(units, nowUs, windowUs)
    },
    take: (units) => meter.take(units),
  }
}

function logBook(windowUs: number, max: () => number): Book {
  let entries: { at: number; units: number }[] = []
  return {
    add: (units, at) => {
      entries = entries.filter((entry) => entry.at > at - windowUs)
      entries.push({ at, units })
      return entries.reduce((sum, entry) => sum + entry.units, 0) - max()
    },
    take: (units, at) => {
      const entry = entries.find((each) => each.at === at && each.units >= units)
      if (entry !== undefined) entry.units -= units
    },
  }
}

function takeBack(done: Done, truth: Truth, bookOf: (counter: Counter) => Book): void {
  const { asked } = done.request
  if (asked.verb !== 'give' || done.reply.late) return
  const counter = truth.counters.get(nameOf(asked.give.key))
  if (counter !== undefined) bookOf(counter).take(asked.give.amount, asked.give.at ?? done.storeUs)
}
