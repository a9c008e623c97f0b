/** All rules: which refuse, how much, and since when. */
import { useState } from 'preact/hooks'
import type { RuleView } from '@sluice/client'
import { nowMs } from '../clock.js'
import { count, dateTime } from '../format.js'
import { rulesVersion, stats } from '../live.js'
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
import { findRules, isShadowed, ROWS_MAX, type RuleOrder, rowsOf } from './rules/rows.js'
import { RulesTable } from './rules/rules-table.js'
import { type Editing, useEditing, useRules } from './rules/use-rules.js'

const NEW = `${hrefs.rules}?new=1`

const TEMPLATE = `id: new-rule
description: What it is for, in a sentence.
match:
  path: /v1/things/*
by: [user]
limits: [10/second]
mode: shadow
`

const ORDERS: readonly { readonly value: RuleOrder; readonly label: string }[] = [
  { value: 'refusals', label: 'Most refusals' },
  { value: 'decisions', label: 'Most decisions' },
  { value: 'name', label: 'Name' },
  { value: 'set', label: 'Order of the set' },
]

export function RulesPage() {
  const editing = useEditing()
  return route.value.query.has('new') ? <NewRule editing={editing} /> : <List editing={editing} />
}

/** Protection that is off must not go unseen. */
function ShadowNote({ rules }: { readonly rules: readonly RuleView[] }) {
  const shadowed = rules.filter((rule) => isShadowed(rule, nowMs.value))
  const untils = shadowed.flatMap(({ shadowUntil }) => shadowUntil ?? []).toSorted()
  const last = untils.at(-1)
  if (last === undefined) return null
  const which =
    shadowed.length === 1 ? 'One enforced rule' : `${count(shadowed.length)} enforced rules`
  return (
    <Note tone="degraded" title={`${which} in shadow until ${dateTime(last)}`}>
      They count and refuse nobody, and refuse again by themselves then.
    </Note>
  )
}

function List({ editing }: { readonly editing: Editing }) {
  const [search, setSearch] = useState('')
  const [order, setOrder] = useState<RuleOrder>('refusals')
  const { rules, isLoading, error, reload } = useRules(rulesVersion.value)
  const seen = new Map((stats.value?.rules ?? []).map((each) => [each.rule, each]))
  const found = findRules(rules ?? [], search)
  const rows = rowsOf(found, seen, order)
  const total = rules?.length ?? 0
  return (
    <Page
      title="Rules"
      lead="Each with the limits in force, and beside them what is on trial."
      actions={
        editing.isAllowed ? (
          <LinkButton href={NEW} kind="primary">
            New rule
          </LinkButton>
        ) : undefined
      }
    >
      {editing.why !== undefined && (
        <Note tone="neutral" title="Rules cannot be changed here">
          <Text value={editing.why} max={400} />
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
        {rules === undefined && error === undefined && <Loading what="Reading rules" />}
        {rules !== undefined && rows.length === 0 && (
          <Empty title={total === 0 ? 'No rules yet' : 'No rule is called so'}>
            {total === 0 ? 'Without rules every call is allowed.' : 'Try fewer words.'}
          </Empty>
        )}
        {rows.length > 0 && <RulesTable rows={rows} />}
        {rules !== undefined && (
          <p class="rules-count faint small" role="status">
            {countText({ shown: rows.length, found: found.length, total })}
            {isLoading && ' Reading more…'}
          </p>
        )}
      </Card>
    </Page>
  )
}

function countText(of: {
  readonly shown: number
  readonly found: number
  readonly total: number
}): string {
  const rules = `${count(of.total)} ${of.total === 1 ? 'rule' : 'rules'}`
  const all = of.found === of.total ? rules : `${count(of.found)} of ${rules}`
  return of.found > of.shown ? `${all}; the first ${count(ROWS_MAX)} are shown.` : `${all}.`
}

function NewRule({ editing }: { readonly editing: Editing }) {
  return (
    <Page
      title="New rule"
      lead={
        <>
          It begins in shadow: it counts, and refuses nobody.{' '}
          <Link href={hrefs.rules}>Back to all rules</Link>
        </>
      }
    >
      <Card title="The rule as YAML">
        <RuleEditor
          original={{ text: TEMPLATE, version: 0 }}
          editing={editing}
          onSaved={(rule) => {
            toast(`Rule ${rule.id} is in force`, 'allowed')
            navigate(hrefs.rule(rule.id))
          }}
          onCancel={() => navigate(hrefs.rules)}
        />
      </Card>
    </Page>
  )
}
