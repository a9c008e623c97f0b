/** The calls of the demo: who makes how many of which in each tenth of a second. */
import { ATTACKERS, IMPORTING, LOOPING, ODD, SCRAPER, USERS, VISITORS } from './cast.mjs'

/**
 * @typedef {object} DemoCall
 * @property {string} method
 * @property {string} path
 * @property {string} ip
 * @property {string} [key]
 */

export const SLICE_S = 0.1
const MINUTE_S = 60

/**
 * The calls of one slice of time.
 * @param {number} second since the start @param {() => number} random @param {number} scale
 * @returns {DemoCall[]}
 */
export function callsOf(second, random, scale = 1) {
  const calls = []
  const add = (rate, make) => {
    for (let n = drawn(rate * scale * SLICE_S, random); n > 0; n--) calls.push(make())
  }
  for (const user of USERS) add(user.rate * wave(second, user.rate), () => everyday(user, random))
  add(8, () => visit(pick(VISITORS, random), random))
  add(35, () => callFrom('GET', `/v1/products/${Math.floor(random() * 9000)}`, SCRAPER))
  add(18, () => ({ ...callFrom('GET', '/v1/orders/recent', '192.0.2.9'), key: LOOPING.key }))
  add(attack(second), () => callFrom('POST', '/v1/login', pick(ATTACKERS, random)))
  add(imports(second), () => ({
    ...callFrom('POST', '/v1/orders', '192.0.2.12'),
    key: IMPORTING.key,
  }))
  add(0.8, () => ({ ...callFrom('POST', '/v1/exports', '192.0.2.12'), key: IMPORTING.key }))
  add(12, () => ({ ...callFrom('GET', '/v1/orders/1', '192.0.2.13'), key: ODD.key }))
  return calls
}

function callFrom(method, path, ip) {
  return { method, path, ip }
}

/** The calls of a shop user, mostly reads. */
function everyday({ key }, random) {
  const place = random()
  const ip = '192.0.2.10'
  if (place < 0.45)
    return { ...callFrom('GET', `/v1/products/${Math.floor(random() * 500)}`, ip), key }
  if (place < 0.8)
    return { ...callFrom('GET', `/v1/orders/${Math.floor(random() * 500)}`, ip), key }
  if (place < 0.95) return { ...callFrom('GET', '/v1/search', ip), key }
  return { ...callFrom('POST', '/v1/orders', ip), key }
}

function visit(ip, random) {
  if (random() < 0.02) return callFrom('POST', '/v1/login', ip)
  return callFrom('GET', `/v1/products/${Math.floor(random() * 500)}`, ip)
}

/** A day is short here: the rate of each user varies in a cycle of about two minutes. */
function wave(second, phase) {
  return 1 + 0.35 * Math.sin((second / 110) * 2 * Math.PI + phase)
}

/**
 * Credential stuffing: forty seconds in every two minutes. The first run is there from the start;
 * later ones are far larger, which raises an alert.
 */
function attack(second) {
  if (second % (2 * MINUTE_S) >= 40) return 0
  return second < 2 * MINUTE_S ? 15 : 110
}

/** The importer sends everything at once for three seconds, every forty seconds. */
function imports(second) {
  return second % 40 < 3 ? 130 : 2
}

/** A whole number of events with this mean: the fraction is drawn at random. */
function drawn(mean, random) {
  const whole = Math.floor(mean)
  return whole + (random() < mean - whole ? 1 : 0)
}

function pick(list, random) {
  return list[Math.floor(random() * list.length)]
}
