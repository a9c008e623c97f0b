/**
 * The callers of the demo. Each calls all regions at a constant rate; what was admitted is counted
 * here, beside what the limiter counts.
 */
import { Agent, request } from 'node:http'
import { REGIONS } from './world.mjs'

/** As in rules.yaml. */
export const MAX = 600
export const WINDOW_MS = 60_000
/** Calls a second in each region: uneven, so that one sees who does not know of whom. */
export const CALLERS = [
  { name: 'steady', about: 'within the limit', perSecond: [6, 1, 2] },
  { name: 'greedy', about: 'more than twice the limit', perSecond: [14, 4, 6] },
]
const TICK_MS = 25
const ANSWER_BYTES_MAX = 100_000
/** More calls are skipped: the demo is not a load test. */
const IN_FLIGHT_MAX = 200

export class Callers {
  #servers
  #agent = new Agent({ keepAlive: true, maxSockets: 8 })
  #timer
  #inFlight = 0
  #sent = new Map()
  #window = 0
  #admitted = new Map()

  constructor(servers) {
    this.#servers = servers
  }

  start() {
    const beganMs = performance.now()
    this.#timer = setInterval(() => {
      const seconds = (performance.now() - beganMs) / 1000
      for (const [i, region] of REGIONS.entries()) {
        for (const { name, perSecond } of CALLERS) this.#call(region, name, perSecond[i] * seconds)
      }
    }, TICK_MS)
  }

  stop() {
    clearInterval(this.#timer)
    this.#agent.destroy()
  }

  /** Admitted in this window, by region. */
  admittedOf(caller) {
    this.#turn()
    return REGIONS.map((region) => this.#admitted.get(`${region} ${caller}`) ?? 0)
  }

  /** What the store of each region has counted in this window; undefined where it is not known. */
  countedOf(caller) {
    const call = { attributes: { user: caller } }
    return Promise.all(
      REGIONS.map(async (region) => {
        const answer = await this.#post(region, '/v1/peek', call)
        return answer === undefined ? undefined : MAX - answer.remaining
      }),
    )
  }

  /** Makes the calls that are due. */
  #call(region, caller, due) {
    const name = `${region} ${caller}`
    const sent = this.#sent.get(name) ?? 0
    this.#sent.set(name, Math.max(sent, Math.floor(due)))
    for (let i = sent; i < Math.floor(due) && this.#inFlight < IN_FLIGHT_MAX; i++) {
      void this.#post(region, '/v1/check', { attributes: { user: caller } }).then((answer) => {
        if (answer?.allowed !== true) return
        this.#turn()
        this.#admitted.set(name, (this.#admitted.get(name) ?? 0) + 1)
      })
    }
  }

  /** Begins a window. */
  #turn() {
    const now = Math.floor(Date.now() / WINDOW_MS)
    if (now === this.#window) return
    this.#window = now
    this.#admitted.clear()
  }

  /** Resolves with undefined if there is no answer. */
  #post(region, path, body) {
    this.#inFlight += 1
    const headers = { 'content-type': 'application/json' }
    return new Promise((resolve) => {
      const url = `${this.#servers[region].api}${path}`
      const sent = request(url, { method: 'POST', agent: this.#agent, headers }, (answer) => {
        let text = ''
        answer.on('data', (chunk) => {
          if (text.length < ANSWER_BYTES_MAX) text += chunk
        })
        answer.on('end', () => resolve(answer.statusCode === 200 ? JSON.parse(text) : undefined))
      })
      sent.on('error', () => resolve(undefined))
      sent.on('close', () => {
        this.#inFlight -= 1
        resolve(undefined)
      })
      sent.end(JSON.stringify(body))
    })
  }
}
