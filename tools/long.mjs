/**
 * `npm run test:long [-- 100]`: runs the property tests with this many times more generated traces,
 * and tests that need many minutes of real time.
 */
import { spawnSync } from 'node:child_process'

const [times = '100'] = process.argv.slice(2)
if (!/^[1-9][0-9]{0,5}$/.test(times)) {
  console.error(`Usage: npm run test:long -- <times>; found "${times}", accepted: 1 to 999999`)
  process.exit(2)
}
console.log(`Property tests with ${times} times the usual number of traces. This takes a while.`)
const files = [
  'propert',
  'e2e/alerts/callers-anomaly',
  'e2e/redis/cold-burst',
  'e2e/redis/cluster-holds',
  'e2e/redis/concurrency',
  'e2e/redis/differential',
  'e2e/redis/reservations',
]
const { status } = spawnSync('npx', ['vitest', 'run', '--testTimeout', '3600000', ...files], {
  stdio: 'inherit',
  env: { ...process.env, SLUICE_RUNS: times },
})
process.exit(status ?? 1)
