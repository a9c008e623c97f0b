/** The one place that reads real time: for progress, never for a run. */

export function nowMs(): number {
  return performance.now()
}
