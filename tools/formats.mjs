/**
 * `npm run formats -- 0.2.0`: writes what the present code stores into conformance/formats/0.2.0,
 * and opens it. An existing set is never changed.
 */
import { spawnSync } from 'node:child_process'

const [set = ''] = process.argv.slice(2)
if (!/^[0-9]+\.[0-9]+\.[0-9]+$/.test(set)) {
  console.error(`Usage: npm run formats -- <release>; found "${set}", accepted: such as 0.2.0`)
  process.exit(2)
}
const { status } = spawnSync('npx', ['vitest', 'run', 'e2e/formats'], {
  stdio: 'inherit',
  env: { ...process.env, SLUICE_FORMATS: set },
})
process.exit(status ?? 1)
