/**
 * Assigns each test file to one tier, which decides when it runs:
 *
 * - `e2e`: it is in `e2e/` and drives whole programs, or in `simulation/` or `test/` of a
 *   package: whole fleets and whole servers in one process, with very many calls.
 * - `full`: it would be `e2e`, and is listed in FULL: it takes long, or is one more of its kind.
 * - `services`: it, or a helper that it imports, starts a real Redis, Postgres, proxy or tool.
 * - `downloads`: it is listed in DOWNLOADS: it installs versions of Node, runtimes or
 *   frameworks, some hundred megabytes, from the registry.
 * - `unit`: everything else; it starts nothing but Node.
 *
 * `npm test` runs all but `full`, and `npm run test:full` runs `full` and once more the tests that
 * import `tools/property-runs.ts`: with all their generated cases, of which the other tiers run a
 * part.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'

/** Where test files are. */
const FOLDERS = ['packages', 'simulation', 'tools', 'e2e']
const IGNORED = ['node_modules', 'dist']

/** Modules that start services: a test that imports one, directly or not, needs services. */
const STARTS_SERVICES = /^tools\/(services\.mjs|redis\/|postgres\/)/

/** The module by which a test runs a part of its generated cases outside the full tier. */
const RUNS_IN_PART = /^tools\/property-runs\.ts$/

const END_TO_END = /^(e2e|simulation|packages\/[^/]+\/test)\//

/** The end-to-end tests that `npm test` leaves to `npm run test:full`. */
export const FULL = [
  ...[
    'alerts/callers-anomaly',
    'alerts/clocks',
    'alerts/prometheus-outage',
    'alerts/rules-and-callers',
    'alerts/store-many-rules',
    'alerts/store-outage',
    'alerts/store-room',
    'alerts/store-slow',
    'alerts/store-up-topologies',
    'caddy',
    'coordination/clocks',
    'coordination/leases',
    'coordination/limits',
    'coordination/outage',
    'coordination/partition',
    'dashboard/accessibility',
    'dashboard/alerts',
    'dashboard/live-pages',
    'dashboard/login',
    'dashboard/playground',
    'dashboard/priorities',
    'dashboard/rule-changes',
    'dashboard/screenshots',
    'dashboard/server-restart',
    'dashboard/shadow-refusals',
    'dashboard/untrusted-text',
    'haproxy',
    'middleware/redis-store',
    'middleware/remote-limiter',
    'observability/metrics',
    'observability/stored-names',
    'operator-walk',
    'packages/bundles',
    'packages/packed-files',
    'redis/busy-process',
    'redis/cluster-holds',
    'redis/cold-burst',
    'redis/concurrency',
    'redis/empty-requests',
    'redis/faults-clock',
    'redis/faults-fleet',
    'redis/faults-network',
    'redis/faults-process',
    'redis/faults-swizzle',
    'redis/headroom',
    'redis/heavy-operations',
    'redis/node-clock',
    'redis/reservations',
    'redis/warm-up-redis',
    'rule-store-crash',
    'rules-story-large',
    'rules-story-restart',
    'rules-story-tokens',
    'rules-workers',
    'rules/absent',
    'rules/burst',
    'rules/by-hand',
    'rules/disk-at-start',
    'rules/listener',
    'rules/live',
    'rules/outage',
    'rules/restored',
    'rules/writers',
    'security/pipelining',
    'serve-redis',
    'serve-redis-start',
    'start-without-rules',
    'uploads',
  ].map((name) => `e2e/${name}.test.ts`),
  'packages/server/test/leaks.test.ts',
  'packages/server/test/security/path-confusion.test.ts',
  'simulation/mutations.test.ts',
]

/** The tests that install versions of Node or frameworks when they run. */
const DOWNLOADS = [
  'e2e/middleware/nest-12/nest-12.test.ts',
  'e2e/packages/consumers.test.ts',
  'e2e/packages/runtimes.test.ts',
]

/** Every test file of the repository, by its tier. */
export function findTiers(root) {
  const tiers = { unit: [], services: [], e2e: [], full: [], downloads: [] }
  const needsServices = createImportCheck(root, STARTS_SERVICES)
  for (const path of FOLDERS.flatMap((folder) => testFilesIn(root, folder))) {
    tiers[tierOf(path, needsServices)].push(path)
  }
  return tiers
}

/** The tier of a test file. */
export function tierOf(path, needsServices) {
  if (DOWNLOADS.includes(path)) return 'downloads'
  if (END_TO_END.test(path)) return FULL.includes(path) ? 'full' : 'e2e'
  return needsServices(path) ? 'services' : 'unit'
}

function testFilesIn(root, folder) {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = posix.join(folder, entry.name)
    if (entry.isDirectory()) return IGNORED.includes(entry.name) ? [] : testFilesIn(root, path)
    return path.endsWith('.test.ts') ? [path] : []
  })
}

/** The tests of other tiers that run a part of their generated cases there, and all in `full`. */
export function findThorough(root, { unit, services, e2e }) {
  return [...unit, ...services, ...e2e].filter(createImportCheck(root, RUNS_IN_PART))
}

/** Whether a file is one of the wanted, or imports one by relative paths, directly or not. */
function createImportCheck(root, wanted) {
  const known = new Map()
  const check = (path) => {
    const found = known.get(path)
    if (found !== undefined) return found
    // Without this, two files that import each other would be an endless loop.
    known.set(path, false)
    const isOne = wanted.test(path) || importsOf(root, path).some(check)
    known.set(path, isOne)
    return isOne
  }
  return check
}

const IMPORT = /\b(?:from|import)\s*\(?\s*'(\.[^']+)'/g

function importsOf(root, path) {
  const text = readFileSync(join(root, path), 'utf8')
  return [...text.matchAll(IMPORT)].flatMap(([, from]) => {
    const target = posix.join(posix.dirname(path), from)
    const candidates = [target, target.replace(/\.js$/, '.ts'), target.replace(/\.js$/, '.tsx')]
    return candidates.find((file) => isSource(file) && existsSync(join(root, file))) ?? []
  })
}

const isSource = (path) => /\.(ts|tsx|mjs)$/.test(path)
