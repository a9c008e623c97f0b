/** What an alert says, for people who may see callers: by name where the log has a hash. */
import type { AlertView } from '@sluice/client'

export function alertSummary({ summary, details }: Pick<AlertView, 'summary' | 'details'>): string {
  const { hash, caller } = details
  if (typeof hash !== 'string' || hash === '' || !Array.isArray(caller)) return summary
  // A name that a caller chose: `replace` would read a meaning into its signs.
  return caller.length === 0 ? summary : summary.replace(hash, () => caller.join(', '))
}
