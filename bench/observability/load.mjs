/**
 * The load of `npm run bench -- observability`: a fixed rate of decisions, whatever the server
 * answers, in arrays over a few keep-alive connections. Reports how many were answered.
 */
import { Pool } from 'undici'

/** Decisions in one array. */
export const BATCH = 20
const TURN_MS = 5
const CALLERS = 100_000
/** One in this many calls is of a caller that is always refused. */
const REFUSED_EVERY = 10

process.on('message', ({ url, perSecond, seconds }) => {
  void run(url, perSecond, seconds).then((result) => process.send(result))
})

async function run(url, perSecond, seconds) {
  const pool = new Pool(url, { connections: 8, pipelining: 1 })
  const began = performance.now()
  let sent = 0
  let done = 0
  let refused = 0
  let failed = 0
  const waiting = new Set()
  while (performance.now() - began < seconds * 1000) {
    const due = ((performance.now() - began) / 1000) * perSecond
    while (sent + BATCH <= due) {
      const asked = send(pool, sent)
        .then((answers) => {
          done += answers.length
          refused += answers.filter(({ allowed }) => !allowed).length
        })
        .catch(() => failed++)
        .finally(() => waiting.delete(asked))
      waiting.add(asked)
      sent += BATCH
    }
    await new Promise((resolve) => setTimeout(resolve, TURN_MS))
  }
  await Promise.all(waiting)
  const took = (performance.now() - began) / 1000
  await pool.close()
  return { done, refused, failed, took }
}

async function send(pool, first) {
  const calls = Array.from({ length: BATCH }, (_, i) => callOf(first + i))
  const { statusCode, body } = await pool.request({
    method: 'POST',
    path: '/v1/check',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(calls),
  })
  if (statusCode !== 200) throw new Error(`status ${statusCode}: ${await body.text()}`)
  return await body.json()
}

function callOf(n) {
  // Spread over all callers, the same in every round.
  const user = n % REFUSED_EVERY === 0 ? `loop-${n % 100}` : `u${(n * 7919) % CALLERS}`
  return { attributes: { user, ip: `192.0.2.${n % 250}`, method: 'GET', path: '/v1/orders/7' } }
}
