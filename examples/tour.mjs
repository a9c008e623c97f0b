/** `npm start`: a limiter over examples/rules.yaml decides a few calls and shows its answers. */
import { readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { createLimiter, problemBody, rateLimitHeaders } from '@sluice/limiter'

const rules = readFileSync(new URL('rules.yaml', import.meta.url), 'utf8')
const limiter = createLimiter({ rules })

console.log('Ann calls twelve times at once; her limit is 10/second.\n')
const ann = { attributes: { user: 'ann', method: 'GET', path: '/orders' } }
let last
for (let call = 1; call <= 12; call++) {
  last = await limiter.check(ann)
  const { allowed, remaining, retryAfterMs } = last
  const what = allowed ? `allowed, ${remaining} left` : `refused, retry after ${retryAfterMs} ms`
  console.log(`  call ${String(call).padStart(2)}: ${what}`)
}

console.log('\nWhat the last response would carry:\n')
for (const [name, value] of rateLimitHeaders(last, { nowMs: Date.now() })) {
  console.log(`  ${name}: ${value}`)
}
console.log(`\n  ${JSON.stringify(problemBody(last))}`)

console.log(`\nShe waits ${last.retryAfterMs} ms, as she was told, and calls again.\n`)
await wait(last.retryAfterMs)
const again = await limiter.check(ann)
console.log(`  ${again.allowed ? 'allowed' : 'refused'}`)

console.log('\nWhy was she refused? The limiter says what every rule made of the call:\n')
const { explain } = await limiter.explain(ann)
for (const { rule, matched, why, limits } of explain) {
  const left = limits.map(({ name, remaining, limit }) => `${name}: ${remaining} of ${limit} left`)
  console.log(`  ${rule.padEnd(12)} ${matched ? left.join(', ') : `not matched: ${why}`}`)
}

await limiter.close()
console.log('\nThe rules are in examples/rules.yaml; README.md says how to use the library.')
