/**
 * A process with 40 slots of 10 ms, one subject before them, and calls that come whatever happens.
 * No HTTP: six times what the slots do is more than a server and a client on two cores can send.
 * The process never sleeps, so that calls begin and end to the microsecond, not to the millisecond
 * of a timer.
 */
import { once } from 'node:events'
import { subjects } from './in-flight-subjects.mjs'
import { callOf, dueTimes, PATIENCE_MS } from './setting.mjs'
import { Tally } from './tally.mjs'

const SLOTS = 40
const WORK_MS = 10
/** Calls a second. */
const CAPACITY = (1000 * SLOTS) / WORK_MS

/** The calls that have a slot, and those that wait for one; all take equally long. */
class Slots {
  /** When each call ends, and what is called then, in the order of the ends. */
  #busy = new Queue()
  #waiting = new Queue()

  get inFlight() {
    return this.#busy.size + this.#waiting.size
  }

  work(nowMs, onEnd) {
    if (this.#busy.size < SLOTS) this.#busy.push({ endMs: nowMs + WORK_MS, onEnd })
    else this.#waiting.push(onEnd)
  }

  /** Ends the calls that are due; each makes way for the one that waits longest. */
  advance(nowMs) {
    while (this.#busy.size > 0 && this.#busy.first.endMs <= nowMs) {
      const { endMs, onEnd } = this.#busy.shift()
      onEnd(endMs)
      if (this.#waiting.size === 0) continue
      this.#busy.push({ endMs: endMs + WORK_MS, onEnd: this.#waiting.shift() })
    }
  }
}

/** A list that is taken from at its start, without moving the rest each time. */
class Queue {
  #items = []
  #next = 0

  get size() {
    return this.#items.length - this.#next
  }

  get first() {
    return this.#items[this.#next]
  }

  push(item) {
    this.#items.push(item)
  }

  shift() {
    const item = this.#items[this.#next++]
    if (this.#next > 10_000 && this.#next * 2 > this.#items.length) {
      this.#items.splice(0, this.#next)
      this.#next = 0
    }
    return item
  }
}

/** A turn of the loop that is later than this was not late by the work of this process alone. */
const LATE_MS = 1

/**
 * Time as this process had it: what the machine kept it from running is left out, or all calls
 * of that time would come at once.
 */
class OwnTime {
  #beganMs = performance.now()
  #lastMs = this.#beganMs
  #cpuMs = cpuMs()
  #pausedMs = 0

  /** The share of the time that was left out. */
  get paused() {
    return this.#pausedMs / (performance.now() - this.#beganMs)
  }

  /** Called in every turn of the loop; returns the time since the start. */
  tick() {
    const nowMs = performance.now()
    const gapMs = nowMs - this.#lastMs
    this.#lastMs = nowMs
    if (gapMs > LATE_MS) {
      const usedMs = cpuMs()
      this.#pausedMs += Math.max(0, gapMs - (usedMs - this.#cpuMs))
      this.#cpuMs = usedMs
    } else if (nowMs - this.#beganMs > 0) this.#cpuMs += gapMs
    return nowMs - this.#beganMs - this.#pausedMs
  }
}

function cpuMs() {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

/** Resolves when all calls of the profile have an outcome, or were given up. */
function run(admit, slots, phases) {
  const tally = new Tally(phases)
  const calls = dueTimes(phases, CAPACITY)
  const time = new OwnTime()
  const open = new Map()
  let due = calls.next()
  let lastMs = 0
  let n = 0
  const send = (at) => {
    const call = callOf(n)
    const id = n++
    const release = admit(call)
    if (release === undefined) return tally.record(at, call, 'shed', 0)
    open.set(id, { at, call })
    slots.work(at.atMs, (endMs) => {
      release()
      if (open.delete(id)) tally.record(at, call, 'served', endMs - at.atMs)
    })
  }
  const finish = () => {
    for (const { at, call } of open.values()) tally.record(at, call, 'lost', PATIENCE_MS)
    return { paused: time.paused, ...tally.result() }
  }
  return new Promise((resolve) => {
    const turn = () => {
      const nowMs = time.tick()
      // In the order of their times: what ends before a call comes has made way for it.
      while (due.done !== true && due.value.atMs <= nowMs) {
        lastMs = due.value.atMs
        slots.advance(lastMs)
        send(due.value)
        due = calls.next()
      }
      slots.advance(nowMs)
      if (due.done === true && nowMs > lastMs + PATIENCE_MS) resolve(finish())
      else setImmediate(turn)
    }
    turn()
  })
}

const [{ name, profile, delayMs }] = await once(process, 'message')
const places = new Slots()
const subject = await subjects[name]({ inFlight: () => places.inFlight, delayMs })
process.send({ capacity: CAPACITY, ...(await run(subject, places, profile)) })
