/** Sends the calls of a profile over HTTP when they are due, whatever happens to earlier ones. */
import { once } from 'node:events'
import { Agent, request } from 'undici'
import { callOf, dueTimes, PATIENCE_MS } from './setting.mjs'
import { Tally } from './tally.mjs'

const newAgent = () => new Agent({ connections: null, pipelining: 1, keepAliveTimeout: 60_000 })

const WAITING = 4
const CAPACITY_S = 2

/**
 * What the server does in a second while a few callers always wait. Before every run, because a
 * machine that others use too is not equally fast all the time.
 */
async function measureCapacity(server) {
  const dispatcher = newAgent()
  let done = 0
  let isOver = false
  const caller = async () => {
    while (!isOver) {
      const { body } = await request(`${server}/critical`, { dispatcher })
      await body.dump()
      done += 1
    }
  }
  const running = Array.from({ length: WAITING }, caller)
  await new Promise((resolve) => setTimeout(resolve, 500))
  const before = done
  await new Promise((resolve) => setTimeout(resolve, CAPACITY_S * 1000))
  const perSecond = (done - before) / CAPACITY_S
  isOver = true
  await Promise.all(running)
  await dispatcher.close()
  return perSecond
}

/**
 * Resolves when all calls of the profile have an outcome, or were given up. A call that is given up
 * keeps its connection until it is answered: closing it would spare the server nothing, since a
 * handler does not notice, and opening others in its place would cost it more.
 */
async function run(server, phases, rate) {
  const tally = new Tally(phases)
  const calls = dueTimes(phases, rate)
  const dispatcher = newAgent()
  const beganMs = performance.now()
  const open = new Map()
  let n = 0
  const send = async (at) => {
    const call = callOf(n)
    const id = n++
    open.set(id, { at, call })
    const outcome = await answerTo(server, call, dispatcher)
    if (open.delete(id)) tally.record(at, call, outcome, performance.now() - beganMs - at.atMs)
  }
  let due = calls.next()
  await new Promise((resolve) => {
    const tick = () => {
      const nowMs = performance.now() - beganMs
      while (due.done !== true && due.value.atMs <= nowMs) {
        void send(due.value)
        due = calls.next()
      }
      if (due.done === true) setTimeout(resolve, PATIENCE_MS)
      else setTimeout(tick, 1)
    }
    tick()
  })
  for (const { at, call } of open.values()) tally.record(at, call, 'lost', PATIENCE_MS)
  open.clear()
  return tally.result()
}

async function answerTo(server, { priority, user }, dispatcher) {
  try {
    const headers = { 'x-user': user }
    const { statusCode, body } = await request(`${server}/${priority}`, { dispatcher, headers })
    await body.dump()
    return statusCode === 200 ? 'served' : 'shed'
  } catch {
    return 'lost'
  }
}

const [{ url, profile }] = await once(process, 'message')
const capacity = await measureCapacity(url)
process.send({ capacity, ...(await run(url, profile, capacity)) })
