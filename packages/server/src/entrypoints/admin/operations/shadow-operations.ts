/** Operations of temporary shadow: rules refuse nothing until a stored time, for incidents. */
import { checkedBody, operation, type Operation } from '../operation.js'
import { text } from '../query-parameters.js'
import { shadowedView, shadowInput, changeResult } from '@sluice/api'
import { BASE } from './operation-helpers.js'

const tag = 'Rules'
const path = `${BASE}/shadow`

const beginShadow = operation({
  method: 'post',
  path,
  id: 'shadowRules',
  tag,
  summary: 'Let all enforced rules, or one, count without refusing for a while',
  description:
    'Ends by itself, on every node. Modes stay as they are: a rule in shadow or off stays so.',
  role: 'edit',
  writes: true,
  body: checkedBody(shadowInput),
  answers: [{ status: 200, description: 'Until when.', schema: shadowedView }],
  async run({ body: { for: lasting, rule }, meta }, { editor }) {
    const { version, until } = await editor.shadow({ rule, duration: lasting }, meta)
    return { status: 200, body: { version, until, rule: rule ?? null } }
  },
})

const endShadow = operation({
  method: 'delete',
  path,
  id: 'enforceRules',
  tag,
  summary: 'End the shadow of all rules, or of one, before its time',
  description: 'Without a rule also of those that were named one by one. Modes stay as they are.',
  role: 'edit',
  writes: true,
  query: { rule: text.meta({ description: 'Only the shadow of this rule.' }) },
  answers: [{ status: 200, description: 'It is over.', schema: changeResult }],
  async run({ query: { rule }, meta }, { editor }) {
    return { status: 200, body: { version: await editor.endShadow(rule, meta) } }
  },
})

export const SHADOW_OPERATIONS: readonly Operation[] = [beginShadow, endShadow]
