/** One rule: what it does now, what was changed, and every way to change it. */
import { AdminError, type RuleStatsView, type RuleView } from '@sluice/client'
import { useEffect, useState } from 'preact/hooks'
import { api, useLoaded } from '../api.js'
import { nowMs } from '../clock.js'
import { dateTime } from '../format.js'
import { rulesVersion, tick } from '../live.js'
import { hrefs, route } from '../router.js'
import '../styles/rule.css'
import {
  Badge,
  Card,
  Empty,
  ErrorNote,
  Link,
  Loading,
  ModeBadge,
  Note,
  Page,
  Tabs,
  Text,
} from '../ui/index.js'
import { Actions } from './rule/actions.js'
import { CandidateTab } from './rule/candidate-tab.js'
import { HistoryTab } from './rule/history-tab.js'
import { OverridesTab } from './rule/overrides-tab.js'
import { RuleEditor } from './rule/rule-editor.js'
import { Seen } from './rule/seen.js'
import { ShadowRefused } from './rule/shadow-refused.js'
import { Facts, Left, TopRefused } from './rule/side-cards.js'
import { writeRule } from './rule/yaml.js'
import { isShadowed } from './rules/rows.js'
import { type Editing, useEditing } from './rules/use-rules.js'

/** A rule's figures are counted in steps of ten seconds. */
const STEP_MS = 10_000

export function RulePage({ id }: { readonly id: string }) {
  const version = rulesVersion.value
  const rule = useLoaded(() => api.getRule(id), [id, version])
  const step = Math.floor((tick.value?.endMs ?? 0) / STEP_MS)
  const isGone = rule.error instanceof AdminError && rule.error.code === 'rule_unknown'
  const stats = useLoaded(
    async () => (isGone ? undefined : (await api.stats({ rule: id })).rules[0]),
    [id, step, isGone],
  )
  const editing = useEditing()
  if (isGone) return <Gone id={id} editing={editing} />
  return (
    <Page
      title={id}
      lead={rule.value === undefined ? undefined : <Lead rule={rule.value} />}
      actions={
        rule.value !== undefined &&
        editing.isAllowed && <Actions rule={rule.value} stats={stats.value} onChanged={rule.set} />
      }
    >
      {rule.error !== undefined && <ErrorNote error={rule.error} onRetry={rule.reload} />}
      {editing.why !== undefined && (
        <Note tone="neutral" title="This rule cannot be changed here">
          <Text value={editing.why} max={400} />
        </Note>
      )}
      {rule.value === undefined ? (
        rule.error === undefined && <Loading what="Reading the rule" />
      ) : (
        <Body rule={rule.value} stats={stats.value} editing={editing} onChanged={rule.set} />
      )}
    </Page>
  )
}

function Lead({ rule }: { readonly rule: RuleView }) {
  const { mode, description } = rule
  return (
    <span class="rule-lead">
      <ModeBadge mode={typeof mode === 'string' ? mode : 'enforce'} />
      {isShadowed(rule, nowMs.value) && (
        <Badge tone="degraded">in shadow until {dateTime(rule.shadowUntil ?? '')}</Badge>
      )}
      {typeof description === 'string' && <Text value={description} max={400} />}
    </span>
  )
}

interface BodyProps {
  readonly rule: RuleView
  readonly stats: RuleStatsView | undefined
  readonly editing: Editing
  readonly onChanged: (rule: RuleView) => void
}

function Body({ rule, stats, editing, onChanged }: BodyProps) {
  return (
    <>
      <div class="rule-top">
        <Card title="Last ten minutes" lead="Calls a second, of all nodes together">
          <Seen rule={rule} stats={stats} />
        </Card>
        <Facts rule={rule} stats={stats} />
        {rule['mode'] === 'shadow' ? (
          <ShadowRefused rule={rule} canChange={editing.isAllowed} />
        ) : (
          <TopRefused rule={rule} canChange={editing.isAllowed} />
        )}
        <Left stats={stats} />
        {rule['mode'] !== 'shadow' && rule.candidate !== undefined && (
          <ShadowRefused rule={rule} canChange={editing.isAllowed} />
        )}
      </div>
      <Changes rule={rule} stats={stats} editing={editing} onChanged={onChanged} />
    </>
  )
}

function Changes({ rule, stats, editing, onChanged }: BodyProps) {
  const { query } = route.value
  const prefill = prefillOf(query)
  const [tab, setTab] = useState(query.get('tab') ?? 'edit')
  const tabs = [
    { id: 'edit', label: editing.isAllowed ? 'Edit' : 'Text' },
    { id: 'overrides', label: 'Overrides', count: rule.overrideCount },
    { id: 'candidate', label: 'Candidate', ...(rule.candidate === undefined ? {} : { count: 1 }) },
    { id: 'history', label: 'History' },
  ]
  const asked = JSON.stringify(prefill)
  // A link to an override, from this very page too, opens its form.
  useEffect(() => {
    if (asked !== '{}') setTab('overrides')
  }, [asked])
  const chosen = tabs.some(({ id }) => id === tab) ? tab : 'edit'
  return (
    <Card>
      <Tabs label="Change the rule" tabs={tabs} value={chosen} onChange={setTab}>
        {chosen === 'edit' && (
          <RuleEditor
            id={rule.id}
            original={{ text: writeRule(rule), version: rule.version }}
            editing={editing}
            onSaved={onChanged}
          />
        )}
        {chosen === 'overrides' && (
          <OverridesTab key={asked} rule={rule} editing={editing} prefill={prefill} />
        )}
        {chosen === 'candidate' && (
          <CandidateTab rule={rule} stats={stats} editing={editing} onChanged={onChanged} />
        )}
        {chosen === 'history' && <HistoryTab id={rule.id} editing={editing} />}
      </Tabs>
    </Card>
  )
}

const PREFIX = 'override.'

/** The caller that another page wants an override for. */
function prefillOf(query: URLSearchParams): Readonly<Record<string, string>> {
  const parts = [...query].filter(([name]) => name.startsWith(PREFIX))
  return Object.fromEntries(parts.map(([name, value]) => [name.slice(PREFIX.length), value]))
}

/** A rule that was removed still has a past, and can come back. */
function Gone({ id, editing }: { readonly id: string; readonly editing: Editing }) {
  return (
    <Page title={id} lead="There is no such rule now.">
      <Card title="History">
        <HistoryTab
          id={id}
          editing={editing}
          empty={
            <Empty title="There never was a rule of this id">
              <Link href={hrefs.rules}>See all rules</Link>
            </Empty>
          }
        />
      </Card>
    </Page>
  )
}
