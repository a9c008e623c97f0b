/** The page of one rule: statistics, settings, history, and every way to change it. */
import { AdminError, type RuleStatsView, type RuleView } from '@sluice/client'
import { useEffect, useState } from 'preact/hooks'
import { api, useResource } from '../api.js'
import { nowMs } from '../clock.js'
import { dateTime } from '../format.js'
import { rulesVersion, lastTick } from '../live.js'
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
import { RuleActions } from './rule/actions.js'
import { CandidateTab } from './rule/candidate-tab.js'
import { HistoryTab } from './rule/history-tab.js'
import { OverridesTab } from './rule/overrides-tab.js'
import { RuleEditor } from './rule/rule-editor.js'
import { RuleStats } from './rule/rule-stats.js'
import { ShadowRefused } from './rule/shadow-refused.js'
import { RuleSettings, RemainingBudget, MostRefusedCallers } from './rule/side-cards.js'
import { writeRuleYaml } from '@sluice/core/text'
import { isTemporarilyShadowed } from './rules/rule-rows.js'
import { type EditAccess, useEditAccess } from './rules/use-rules.js'

/** The statistics of a rule have steps of ten seconds. */
const STEP_MS = 10_000

export function RulePage({ id }: { readonly id: string }) {
  const version = rulesVersion.value
  const rule = useResource(() => api.getRule(id), [id, version])
  const step = Math.floor((lastTick.value?.endMs ?? 0) / STEP_MS)
  const isDeleted = rule.error instanceof AdminError && rule.error.code === 'rule_unknown'
  const stats = useResource(
    async () => (isDeleted ? undefined : (await api.stats({ rule: id })).rules[0]),
    [id, step, isDeleted],
  )
  const access = useEditAccess()
  if (isDeleted) return <DeletedRule id={id} access={access} />
  return (
    <Page
      title={id}
      lead={rule.value === undefined ? undefined : <Lead rule={rule.value} />}
      actions={
        rule.value !== undefined &&
        access.isAllowed && (
          <RuleActions rule={rule.value} stats={stats.value} onChanged={rule.set} />
        )
      }
    >
      {rule.error !== undefined && <ErrorNote error={rule.error} onRetry={rule.reload} />}
      {access.reason !== undefined && (
        <Note tone="neutral" title="This rule is read-only here">
          <Text value={access.reason} max={400} />
        </Note>
      )}
      {rule.value === undefined ? (
        rule.error === undefined && <Loading what="Loading rule" />
      ) : (
        <RuleContent rule={rule.value} stats={stats.value} access={access} onChanged={rule.set} />
      )}
    </Page>
  )
}

function Lead({ rule }: { readonly rule: RuleView }) {
  const { mode, description } = rule
  return (
    <span class="rule-lead">
      <ModeBadge mode={typeof mode === 'string' ? mode : 'enforce'} />
      {isTemporarilyShadowed(rule, nowMs.value) && (
        <Badge tone="degraded">in shadow until {dateTime(rule.shadowUntil ?? '')}</Badge>
      )}
      {typeof description === 'string' && <Text value={description} max={400} />}
    </span>
  )
}

interface RuleContentProps {
  readonly rule: RuleView
  readonly stats: RuleStatsView | undefined
  readonly access: EditAccess
  readonly onChanged: (rule: RuleView) => void
}

function RuleContent({ rule, stats, access, onChanged }: RuleContentProps) {
  return (
    <>
      <div class="rule-top">
        <Card title="Traffic, last 10 minutes" lead="Requests per second, all nodes">
          <RuleStats rule={rule} stats={stats} />
        </Card>
        <RuleSettings rule={rule} stats={stats} />
        {rule['mode'] === 'shadow' ? (
          <ShadowRefused rule={rule} canChange={access.isAllowed} />
        ) : (
          <MostRefusedCallers rule={rule} canChange={access.isAllowed} />
        )}
        <RemainingBudget stats={stats} />
        {rule['mode'] !== 'shadow' && rule.candidate !== undefined && (
          <ShadowRefused rule={rule} canChange={access.isAllowed} />
        )}
      </div>
      <RuleTabs rule={rule} stats={stats} access={access} onChanged={onChanged} />
    </>
  )
}

function RuleTabs({ rule, stats, access, onChanged }: RuleContentProps) {
  const { query } = route.value
  const prefill = prefillOf(query)
  const [tab, setTab] = useState(query.get('tab') ?? 'edit')
  const tabs = [
    { id: 'edit', label: access.isAllowed ? 'Edit' : 'YAML' },
    { id: 'overrides', label: 'Overrides', count: rule.overrideCount },
    { id: 'candidate', label: 'Candidate', ...(rule.candidate === undefined ? {} : { count: 1 }) },
    { id: 'history', label: 'History' },
  ]
  const prefillKey = JSON.stringify(prefill)
  // A link to an override opens its form, also from this page.
  useEffect(() => {
    if (prefillKey !== '{}') setTab('overrides')
  }, [prefillKey])
  const selected = tabs.some(({ id }) => id === tab) ? tab : 'edit'
  return (
    <Card>
      <Tabs label="Rule details" tabs={tabs} value={selected} onChange={setTab}>
        {selected === 'edit' && (
          <RuleEditor
            id={rule.id}
            original={{ text: writeRuleYaml(rule), version: rule.version }}
            access={access}
            onSaved={onChanged}
          />
        )}
        {selected === 'overrides' && (
          <OverridesTab key={prefillKey} rule={rule} access={access} prefill={prefill} />
        )}
        {selected === 'candidate' && (
          <CandidateTab rule={rule} stats={stats} access={access} onChanged={onChanged} />
        )}
        {selected === 'history' && <HistoryTab id={rule.id} access={access} />}
      </Tabs>
    </Card>
  )
}

const OVERRIDE_PREFIX = 'override.'

/** The caller of an override link from another page. */
function prefillOf(query: URLSearchParams): Readonly<Record<string, string>> {
  const entries = [...query].filter(([name]) => name.startsWith(OVERRIDE_PREFIX))
  return Object.fromEntries(
    entries.map(([name, value]) => [name.slice(OVERRIDE_PREFIX.length), value]),
  )
}

/** A deleted rule still has a history and can be restored. */
function DeletedRule({ id, access }: { readonly id: string; readonly access: EditAccess }) {
  return (
    <Page title={id} lead="This rule does not exist.">
      <Card title="History">
        <HistoryTab
          id={id}
          access={access}
          empty={
            <Empty title="No rule with this id has existed">
              <Link href={hrefs.rules}>All rules</Link>
            </Empty>
          }
        />
      </Card>
    </Page>
  )
}
