/**
 * How many generated cases a property test runs: `SLUICE_RUNS` times the count that it asks for, or
 * the part that its tier runs. The unit tier runs a part of them, the full tier all of them, `npm
 * run test:long` many times more.
 */
const TIMES = Number(process.env['SLUICE_RUNS'] ?? process.env['TIER_RUNS'] ?? '1')

export function propertyRuns(count: number): number {
  return Math.ceil(count * TIMES)
}
