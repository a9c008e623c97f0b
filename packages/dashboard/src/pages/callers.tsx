/** Top callers: by refusals, shadow refusals, usage, time without budget and hours at the limit. */
import type { TopCallerView, TopOrder, TopView } from '@sluice/client'
import { api, useResource } from '../api.js'
import { usePolling } from '../clock.js'
import { clockMinute } from '../format.js'
import { rulesVersion } from '../live.js'
import { hrefs, navigate, route } from '../router.js'
import '../styles/overview.css'
import {
  SingleProcessNote,
  Card,
  ErrorNote,
  Loading,
  Page,
  SelectField,
  Tabs,
} from '../ui/index.js'
import { CallersTable } from './callers/callers-table.js'

const LIMIT = 100
const POLL_MS = 5000
/** Rules offered in the filter. */
const RULES_MAX = 1000

const VIEWS: readonly {
  readonly id: TopOrder
  readonly label: string
  readonly title: string
}[] = [
  { id: 'refusals', label: 'Most refused', title: 'Callers with the most refusals' },
  {
    id: 'shadow',
    label: 'Would be refused',
    title: 'Callers that a shadow rule or a candidate would have refused',
  },
  {
    id: 'use',
    label: 'Highest usage',
    title: 'Callers with the highest usage, in units of cost',
  },
  { id: 'zero', label: 'Exhausted', title: 'Callers with no budget left, longest first' },
  {
    id: 'hours',
    label: 'At the limit for hours',
    title: 'Callers at their limit in most of the last 24 hours: candidates for a higher tier',
  },
]

export function CallersPage() {
  const { query } = route.value
  const rule = query.get('rule') ?? ''
  const view = VIEWS.find(({ id }) => id === query.get('by')) ?? VIEWS[0]
  const by = view?.id ?? 'refusals'
  const pollCount = usePolling(POLL_MS)
  const top = useResource(
    () => api.top({ by, limit: LIMIT, ...(rule === '' ? {} : { rule }) }),
    [by, rule, pollCount],
  )
  const rules = useResource(() => api.listRules({ limit: RULES_MAX }), [rulesVersion.value])
  const ids = rules.value?.rules.map(({ id }) => id) ?? []
  const navigateTo = (next: { readonly by?: string; readonly rule?: string }) =>
    navigate(hrefs.callers({ by, rule, ...next }), { replace: true })
  return (
    <Page
      title="Callers"
      lead="Limited callers, with the rule and the duration. Secret attributes show as a hash and their last four characters."
      actions={
        <SelectField
          label="Rule"
          hasHiddenLabel
          value={rule}
          onChange={(value) => navigateTo({ rule: value })}
          options={[
            { value: '', label: 'All rules' },
            // A deleted rule can still be selected by its address.
            ...[...new Set(rule === '' ? ids : [...ids, rule])].map((id) => ({
              value: id,
              label: id,
            })),
          ]}
        />
      }
    >
      {top.value?.isWhole === false && <SingleProcessNote />}
      <Tabs
        label="Lists of callers"
        tabs={VIEWS}
        value={by}
        onChange={(id) => navigateTo({ by: id })}
      >
        <Card flush title={view?.title ?? ''} lead={listLead(top.value, by)}>
          {top.value?.by === by ? (
            <CallersTable callers={top.value.callers.filter(isListed(by))} by={by} />
          ) : top.error !== undefined ? (
            <ErrorNote error={top.error} onRetry={top.reload} />
          ) : (
            <Loading what="Loading callers" />
          )}
        </Card>
      </Tabs>
    </Page>
  )
}

/** Callers with shadow refusals only are left out: they have a list of their own. */
const isListed = (by: TopOrder) => (caller: TopCallerView) =>
  by !== 'refusals' || caller.refusals > 0

function listLead(top: TopView | undefined, by: TopOrder): string | undefined {
  if (top === undefined) return undefined
  const nodes = !top.isWhole ? 'this process' : top.nodes === 1 ? '1 node' : `${top.nodes} nodes`
  return by === 'hours'
    ? `Reported by ${nodes}`
    : `Counted since ${clockMinute(top.since)} by ${nodes}`
}
