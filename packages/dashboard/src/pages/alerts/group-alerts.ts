/** Groups related alerts: two dozen addresses that guess passwords are one attack. */
import type { AlertView } from '@sluice/client'

export interface AlertGroup {
  readonly first: AlertView
  readonly others: readonly AlertView[]
}

/** Groups by severity, kind and rule: pages first, then in the order of the first alert. */
export function groupAlerts(alerts: readonly AlertView[]): readonly AlertGroup[] {
  const groups = new Map<string, [AlertView, ...AlertView[]]>()
  for (const alert of alerts) {
    const key = JSON.stringify([alert.severity, alert.alert, alert.details['rule'] ?? ''])
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [alert])
    else group.push(alert)
  }
  return [...groups.values()]
    .map(([first, ...others]) => ({ first, others }))
    .toSorted((a, b) => urgency(b.first) - urgency(a.first))
}

const urgency = ({ severity }: AlertView): number => (severity === 'page' ? 1 : 0)
