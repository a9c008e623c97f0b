/**
 * The callers of the demo. All names are invented; addresses are those reserved for documentation.
 */

/** Users with a key, their plan, and their usual rate in calls per second. */
export const USERS = [
  ['birch-bakery', 'free', 1.5],
  ['canal-cycles', 'free', 2],
  ['dune-design', 'free', 1],
  ['ember-events', 'free', 2.5],
  ['fjord-films', 'free', 1],
  ['gable-games', 'free', 3],
  ['harbour-hotel', 'pro', 6],
  ['island-imports', 'pro', 9],
  ['juniper-jobs', 'pro', 7],
  ['kiln-kitchens', 'pro', 5],
  ['lantern-labs', 'pro', 11],
  ['meadow-market', 'partner', 25],
  ['north-networks', 'partner', 18],
].map(([user, plan, rate]) => ({ user, plan, rate, key: `demo-key-${user}-0123456789` }))

/** A program that retries immediately when it is refused, and so is always at its limit. */
export const LOOPING = {
  user: 'loop-logistics',
  plan: 'free',
  key: 'demo-key-loop-logistics-0123456789',
}
/** Imports its whole catalogue in one burst, at intervals. */
export const IMPORTING = {
  user: 'bulk-books',
  plan: 'pro',
  key: 'demo-key-bulk-books-0123456789',
}
/** A user name that contains markup, to check that pages show it as text. */
export const ODD = {
  user: '<img src=x onerror=alert(1)>',
  plan: 'free',
  key: 'demo-key-of-an-odd-name-0123456789',
}

export const KNOWN = [...USERS, LOOPING, IMPORTING, ODD]

export const SCRAPER = '203.0.113.66'
/** The addresses of a credential stuffing attack. */
export const ATTACKERS = Array.from({ length: 24 }, (_, index) => `198.51.100.${index + 10}`)
/** Visitors without a key. */
export const VISITORS = Array.from({ length: 40 }, (_, index) => `192.0.2.${index + 20}`)
