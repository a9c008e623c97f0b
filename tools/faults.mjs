/**
 * `npm run test:faults [-- 10 [node-redis]]`: runs the fault tests with faults that last this many
 * times longer, by ioredis or another client.
 */
import { spawnSync } from 'node:child_process'

const CLIENTS = ['ioredis', 'iovalkey', 'node-redis']

const [times = '10', client = 'ioredis'] = process.argv.slice(2)
if (!/^[1-9][0-9]{0,2}$/.test(times) || !CLIENTS.includes(client)) {
  console.error('Usage: npm run test:faults -- <times> <client>')
  console.error(`found "${times} ${client}", accepted: 1 to 999, and ${CLIENTS.join(', ')}`)
  process.exit(2)
}
console.log(`Fault tests by ${client}, each fault ${times} times as long. This takes a while.`)
const { status } = spawnSync('npx', ['vitest', 'run', 'e2e/redis/faults'], {
  stdio: 'inherit',
  env: { ...process.env, SLUICE_FAULTS: times, SLUICE_CLIENT: client },
})
process.exit(status ?? 1)
