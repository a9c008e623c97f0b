/** What nodes run, decide and hold. */
import type { Call } from '@sluice/core'
import { type Asked as AskedCall, PEEK_KEYS, RESET_KEYS, readCall } from '../../api/read-call.js'
import type { NodeSeen } from '../../rule-store/rule-store.js'
import type { SightNodeView } from '../../stats/views.js'
import type { AdminParts } from '../admin-parts.js'
import { type BodySpec, openBody, operation, type Operation } from '../operation.js'
import {
  callInput,
  decisionView,
  inspectInput,
  inspectView,
  nodesView,
  versionAnswer,
} from '../schemas.js'
import { BASE } from './common.js'

const listNodes = operation({
  method: 'get',
  path: `${BASE}/nodes`,
  id: 'listNodes',
  tag: 'Nodes',
  summary: 'List the nodes, and the version of the rules that each runs',
  role: 'read',
  answers: [{ status: 200, description: 'The nodes, and this one.', schema: nodesView }],
  async run(_asked, { source, editor, node, sight }) {
    const status = source.status()
    const [seen, told] = await Promise.all([seenNodes(source), toldNodes(sight)])
    const body = {
      version: source.version(),
      source: source.name,
      readOnly: editor.readOnly ?? null,
      news: status?.news ?? null,
      ageSeconds: Math.round(source.ageSeconds() * 1000) / 1000,
      problem: source.problem() ?? status?.problem ?? null,
      nodes: joinNodes(seen ?? [{ ...node(), seenMsAgo: 0 }], told),
    }
    return { status: 200, body }
  },
})

/** Undefined where the store does not say: this is asked above all when something is wrong. */
async function seenNodes({ store }: AdminParts['source']) {
  try {
    return await store?.nodes()
  } catch {
    return undefined
  }
}

/** None where the board does not say. */
async function toldNodes(sight: AdminParts['sight']): Promise<readonly SightNodeView[]> {
  try {
    return await sight.nodes()
  } catch {
    return []
  }
}

/** What the rule store knows of each node, with what it told of itself on the board, if it did. */
function joinNodes(
  seen: readonly NodeSeen[],
  told: readonly SightNodeView[],
): readonly (NodeSeen & Partial<SightNodeView>)[] {
  const toldById = new Map(told.map((node) => [node.id, node]))
  const joined = seen.map((node) => {
    const own = toldById.get(node.id)
    // Both know the version that it runs; whoever heard of it last is right.
    const isNewer = own !== undefined && own.seenMsAgo < node.seenMsAgo
    return isNewer ? { ...node, ...own } : { ...own, ...node }
  })
  const seenIds = new Set(seen.map(({ id }) => id))
  return [...joined, ...told.filter(({ id }) => !seenIds.has(id))]
}

const adopt = operation({
  method: 'post',
  path: `${BASE}/adopt`,
  id: 'adopt',
  tag: 'Nodes',
  summary: 'Follow a rule store that was put back to an older state',
  description: 'Nodes refuse to follow one until somebody says that it is meant.',
  role: 'admin',
  writes: true,
  answers: [{ status: 200, description: 'It is followed.', schema: versionAnswer }],
  async run({ meta }, { editor }) {
    return { status: 200, body: { version: await editor.adopt(meta) } }
  },
})

const callBody: BodySpec<AskedCall> = {
  ...openBody(callInput),
  read: (sent) => readCall(sent, PEEK_KEYS),
}

/** A key is the same caller here as at the gateway, and a secret in neither's log. */
function hidden({ attributes, cost }: AskedCall, { hideSecrets }: AdminParts): Call {
  return { attributes: hideSecrets(attributes), ...(cost !== undefined && { cost }) }
}

const check = operation({
  method: 'post',
  path: `${BASE}/check`,
  id: 'check',
  tag: 'Calls',
  summary: 'Decide a call, and spend',
  role: 'edit',
  body: callBody,
  answers: [{ status: 200, description: 'The decision.', schema: decisionView }],
  async run({ body }, parts) {
    const call = hidden(body, parts)
    const { decider } = parts
    const decision = await decider.check(call, 'admin')
    return { status: 200, body: { ...decision, callers: decider.limiter.callers(call) } }
  },
})

const peek = operation({
  method: 'post',
  path: `${BASE}/peek`,
  id: 'peek',
  tag: 'Calls',
  summary: 'Say what check would, and why',
  description: 'Spends nothing. `explain` has every rule: matched or why not, and what is left.',
  role: 'read',
  body: callBody,
  answers: [{ status: 200, description: 'The decision.', schema: decisionView }],
  async run({ body }, parts) {
    const call = hidden(body, parts)
    const { limiter } = parts.decider
    const decision = await limiter.explain(call)
    return { status: 200, body: { ...decision, callers: limiter.callers(call) } }
  },
})

const inspect = operation({
  method: 'post',
  path: `${BASE}/inspect`,
  id: 'inspect',
  tag: 'Calls',
  summary: 'Show the counters of a caller as they are stored',
  role: 'read',
  body: { ...openBody(inspectInput), read: (sent) => readCall(sent, RESET_KEYS) },
  answers: [{ status: 200, description: 'The counters.', schema: inspectView }],
  async run({ body }, parts) {
    const { limiter } = parts.decider
    return { status: 200, body: await limiter.inspect(body.rule ?? '', hidden(body, parts)) }
  },
})

export const CALL_OPERATIONS: readonly Operation[] = [listNodes, adopt, check, peek, inspect]
