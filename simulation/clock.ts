/** The only module that reads real time: for progress output, never for a run. */

export function nowMs(): number {
  return performance.now()
}
