/** The servers of Sluice, for the `sluice` command and for tests. */
export { type RunOptions, runServer } from './entry.js'
export type { LoggedDecision } from './decision-log/format.js'
export { readDecisions } from './decision-log/read-decisions.js'
