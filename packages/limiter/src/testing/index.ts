/**
 * `@sluice/limiter/testing`: a clock that a test moves, and the suite that every store must pass.
 */
export { type ManualClock, manualClock } from './manual-clock.js'
export { type ConformanceCase, type StoreUnderTest, storeConformance } from './store-conformance.js'
