/** The tier of each test file; see test-tiers.mjs. */
export type Tier = 'unit' | 'services' | 'e2e' | 'full' | 'downloads'

/** The end-to-end tests that `npm test` leaves to `npm run test:full`. */
export const FULL: readonly string[]

/** Every test file of the repository, by its tier. */
export function findTiers(root: string): Readonly<Record<Tier, string[]>>

/** The tests of other tiers that run a part of their generated cases there, and all in `full`. */
export function findThorough(root: string, tiers: Readonly<Record<Tier, string[]>>): string[]

/** The tier of a test file. */
export function tierOf(path: string, needsServices: (path: string) => boolean): Tier
