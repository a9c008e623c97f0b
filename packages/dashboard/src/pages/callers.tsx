/** Who is at the limit: by refusals, by use, by time at zero, by hours of the day. */
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
/** For the list to choose from. */
const RULES_MAX = 1000

const VIEWS: readonly {
  readonly id: TopOrder
  readonly label: string
  readonly title: string
}[] = [
  { id: 'refusals', label: 'Most refused', title: 'Who was refused most' },
  {
    id: 'shadow',
    label: 'Would be refused',
    title: 'Whose calls passed and would have been refused, by a rule in shadow or a candidate',
  },
  {
    id: 'use',
    label: 'Most use',
    title: 'Who used most of what the limits allow, in units of cost',
  },
  { id: 'zero', label: 'At zero', title: 'Who has had nothing left at any call, longest first' },
  {
    id: 'hours',
    label: 'At the limit all day',
    title: 'Who came to the limit in most of the last 24 hours: candidates for a higher tier',
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
      lead="Who is limited, by which rule, and since when. Secret attributes show as a hash and their last four characters."
      actions={
        <SelectField
          label="Rule"
          hasHiddenLabel
          value={rule}
          onChange={(value) => navigateTo({ rule: value })}
          options={[
            { value: '', label: 'All rules' },
            // One that is gone can still be asked for.
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
        label="Order of the callers"
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
            <Loading what="Asking all nodes" />
          )}
        </Card>
      </Tabs>
    </Page>
  )
}

/** Who would only have been refused follows who was, and has a list of its own. */
const isListed = (by: TopOrder) => (caller: TopCallerView) =>
  by !== 'refusals' || caller.refusals > 0

function listLead(top: TopView | undefined, by: TopOrder): string | undefined {
  if (top === undefined) return undefined
  const nodes = !top.isWhole ? 'this process' : top.nodes === 1 ? 'one node' : `${top.nodes} nodes`
  return by === 'hours' ? `Seen by ${nodes}` : `Counted since ${clockMinute(top.since)} by ${nodes}`
}
