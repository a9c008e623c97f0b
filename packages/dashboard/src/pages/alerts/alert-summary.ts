/** The summary of an alert, with the name of the caller instead of its hash. */
import type { AlertView } from '@sluice/client'

export function alertSummary({ summary, details }: Pick<AlertView, 'summary' | 'details'>): string {
  const { hash, caller } = details
  if (typeof hash !== 'string' || hash === '' || !Array.isArray(caller)) return summary
  // A function, because `replace` would interpret `$` in an untrusted name.
  return caller.length === 0 ? summary : summary.replace(hash, () => caller.join(', '))
}
