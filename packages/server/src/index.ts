/** The servers of Sluice, for the `sluice` command and for tests. */
export { type RunOptions, runServer } from './entry.js'
