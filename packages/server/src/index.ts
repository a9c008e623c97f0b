/** The servers of Sluice, for the `sluice` command and for tests. */
export { type RunOptions, runServer } from './main.js'
export type { LoggedDecision } from './observability/decision-log/decision-log-format.js'
export { readDecisions } from './observability/decision-log/read-decisions.js'
