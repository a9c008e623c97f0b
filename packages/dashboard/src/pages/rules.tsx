/** The list of rules, and the page that creates one. */
import { useState } from 'preact/hooks'
import type { RuleView } from '@sluice/client'
import { nowMs } from '../clock.js'
import { count, dateTime } from '../format.js'
import { rulesVersion, liveStats } from '../live.js'
import { hrefs, navigate, route } from '../router.js'
import '../styles/rules.css'
import {
  Card,
  Empty,
  ErrorNote,
  Link,
  LinkButton,
  Loading,
  Note,
  Page,
  SelectField,
  Text,
  TextField,
  toast,
} from '../ui/index.js'
import { RuleEditor } from './rule/rule-editor.js'
import {
  findRules,
  isTemporarilyShadowed,
  ROWS_MAX,
  type RuleOrder,
  sortedRows,
} from './rules/rule-rows.js'
import { RulesTable } from './rules/rules-table.js'
import { type EditAccess, useEditAccess, useRules } from './rules/use-rules.js'

const NEW_RULE_HREF = `${hrefs.rules}?new=1`

const TEMPLATE = `id: new-rule
description: What the rule protects.
match:
  path: /v1/things/*
by: [user]
limits: [10/second]
mode: shadow
`

const ORDERS: readonly { readonly value: RuleOrder; readonly label: string }[] = [
  { value: 'refusals', label: 'Most refusals' },
  { value: 'decisions', label: 'Most requests' },
  { value: 'name', label: 'Name' },
  { value: 'set', label: 'Rule set order' },
]

export function RulesPage() {
  const editing = useEditAccess()
  return route.value.query.has('new') ? (
    <NewRule editing={editing} />
  ) : (
    <RuleList editing={editing} />
  )
}

/** Warns about enforced rules that are temporarily in shadow. */
function ShadowNote({ rules }: { readonly rules: readonly RuleView[] }) {
  const shadowed = rules.filter((rule) => isTemporarilyShadowed(rule, nowMs.value))
  const endTimes = shadowed.flatMap(({ shadowUntil }) => shadowUntil ?? []).toSorted()
  const last = endTimes.at(-1)
  if (last === undefined) return null
  const subject =
    shadowed.length === 1 ? '1 enforced rule' : `${count(shadowed.length)} enforced rules`
  return (
    <Note tone="degraded" title={`${subject} in shadow until ${dateTime(last)}`}>
      They count requests and refuse none, and are enforced again automatically after that time.
    </Note>
  )
}

function RuleList({ editing }: { readonly editing: EditAccess }) {
  const [search, setSearch] = useState('')
  const [order, setOrder] = useState<RuleOrder>('refusals')
  const { rules, isLoading, error, reload } = useRules(rulesVersion.value)
  const statsByRule = new Map((liveStats.value?.rules ?? []).map((each) => [each.rule, each]))
  const matches = findRules(rules ?? [], search)
  const rows = sortedRows(matches, statsByRule, order)
  const total = rules?.length ?? 0
  return (
    <Page
      title="Rules"
      lead="All rules, with their active limits and candidates."
      actions={
        editing.isAllowed ? (
          <LinkButton href={NEW_RULE_HREF} kind="primary">
            New rule
          </LinkButton>
        ) : undefined
      }
    >
      {editing.reason !== undefined && (
        <Note tone="neutral" title="Rules are read-only here">
          <Text value={editing.reason} max={400} />
        </Note>
      )}
      {error !== undefined && <ErrorNote error={error} onRetry={reload} />}
      <ShadowNote rules={rules ?? []} />
      <Card flush>
        <div class="rules-tools">
          <TextField
            label="Search by id or description"
            type="search"
            value={search}
            onInput={setSearch}
            placeholder="orders"
          />
          <SelectField
            label="Sort by"
            value={order}
            options={ORDERS}
            onChange={(value) => setOrder(value as RuleOrder)}
          />
        </div>
        {rules === undefined && error === undefined && <Loading what="Loading rules" />}
        {rules !== undefined && rows.length === 0 && (
          <Empty title={total === 0 ? 'No rules yet' : 'No matching rules'}>
            {total === 0 ? 'Without rules every request is allowed.' : 'Try fewer words.'}
          </Empty>
        )}
        {rows.length > 0 && <RulesTable rows={rows} />}
        {rules !== undefined && (
          <p class="rules-count faint small" role="status">
            {countText({ shown: rows.length, matches: matches.length, total })}
            {isLoading && ' Loading more…'}
          </p>
        )}
      </Card>
    </Page>
  )
}

function countText(counts: {
  readonly shown: number
  readonly matches: number
  readonly total: number
}): string {
  const rules = `${count(counts.total)} ${counts.total === 1 ? 'rule' : 'rules'}`
  const all = counts.matches === counts.total ? rules : `${count(counts.matches)} of ${rules}`
  return counts.matches > counts.shown
    ? `${all}; the first ${count(ROWS_MAX)} are shown.`
    : `${all}.`
}

function NewRule({ editing }: { readonly editing: EditAccess }) {
  return (
    <Page
      title="New rule"
      lead={
        <>
          A new rule starts in shadow: it counts requests and refuses none.{' '}
          <Link href={hrefs.rules}>Back to all rules</Link>
        </>
      }
    >
      <Card title="Rule (YAML)">
        <RuleEditor
          original={{ text: TEMPLATE, version: 0 }}
          access={editing}
          onSaved={(rule) => {
            toast(`Rule ${rule.id} created`, 'allowed')
            navigate(hrefs.rule(rule.id))
          }}
          onCancel={() => navigate(hrefs.rules)}
        />
      </Card>
    </Page>
  )
}
