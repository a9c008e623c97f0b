/**
 * What a test of your own needs: a clock that moves when told, and the suite every store must pass.
 */
export { type ManualClock, manualClock } from './manual-clock.js'
export { type ConformanceCase, type StoreUnderTest, storeConformance } from './store-conformance.js'
