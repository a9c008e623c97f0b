/** Operations on nodes, decisions and counters. */
import type { RegionStats } from '@sluice/limiter'
import type { Call } from '@sluice/core'
import {
  ADMIN_CHECK_FIELDS,
  type CallRequest as AskedCall,
  PLAIN_FIELDS,
  RESET_FIELDS,
  readCall,
} from '../../decision-api/read-call.js'
import type { LiveNode } from '../../../rules/store/rule-store.js'
import type { NodeSnapshotView } from '../../../observability/stats/stats-views.js'
import type { AdminDeps } from '../admin-deps.js'
import { type BodySpec, openBody, operation, type Operation } from '../operation.js'
import {
  callInput,
  adminCheckInput,
  adminDecisionView,
  inspectInput,
  inspectView,
  nodesView,
  type RegionView,
  changeResult,
} from '@sluice/api'
import { BASE } from './operation-helpers.js'

const listNodes = operation({
  method: 'get',
  path: `${BASE}/nodes`,
  id: 'listNodes',
  tag: 'Nodes',
  summary: 'List the nodes, and the version of the rules that each runs',
  role: 'read',
  answers: [{ status: 200, description: 'The nodes, and this one.', schema: nodesView }],
  async run(_request, { ruleFollower, editor, node, fleetStats, regions, ring }) {
    const status = ruleFollower.status()
    const [storeNodes, fleetNodes] = await Promise.all([
      readStoreNodes(ruleFollower),
      readFleetNodes(fleetStats),
    ])
    const body = {
      version: ruleFollower.version(),
      source: ruleFollower.name,
      readOnly: editor.readOnly ?? null,
      news: status?.news ?? null,
      ageSeconds: Math.round(ruleFollower.ageSeconds() * 1000) / 1000,
      problem: ruleFollower.problem() ?? status?.problem ?? null,
      nodes: joinNodes(storeNodes ?? [{ ...node(), seenMsAgo: 0 }], fleetNodes),
      ...(regions === undefined ? {} : { regions: regions().map(describeRegion) }),
      ...(ring === undefined ? {} : { ring: ring() }),
    }
    return { status: 200, body }
  },
})

function describeRegion({ fates, heartbeat, clock, ...link }: RegionStats): RegionView {
  const { region, isAnswering, lagMs, pending, ageMs } = link
  return {
    region,
    isAnswering,
    lagMs: Math.round(lagMs),
    pending,
    ...fates,
    seenMsAgo: ageMs === undefined ? null : Math.round(ageMs),
    nodes: heartbeat?.nodes ?? null,
    rulesVersion: heartbeat?.rules ?? null,
    clockOffsetMs: clock === undefined ? null : Math.round(clock.offsetSeconds * 1000),
  }
}

/** Undefined if the store does not answer: nodes are listed above all when something is wrong. */
async function readStoreNodes({ store }: AdminDeps['ruleFollower']) {
  try {
    return await store?.nodes()
  } catch {
    return undefined
  }
}

/** Empty if the snapshots are unavailable. */
async function readFleetNodes(
  fleetStats: AdminDeps['fleetStats'],
): Promise<readonly NodeSnapshotView[]> {
  try {
    return await fleetStats.nodes()
  } catch {
    return []
  }
}

/**
 * Joins what the rule store knows about each node with the node's own snapshot, if there is one.
 */
function joinNodes(
  storeNodes: readonly LiveNode[],
  fleetNodes: readonly NodeSnapshotView[],
): readonly (LiveNode & Partial<NodeSnapshotView>)[] {
  const fleetNodesById = new Map(fleetNodes.map((node) => [node.id, node]))
  const joined = storeNodes.map((node) => {
    const own = fleetNodesById.get(node.id)
    // Both contain the version that the node runs; the later one is right.
    const isNewer = own !== undefined && own.seenMsAgo < node.seenMsAgo
    return isNewer ? { ...node, ...own } : { ...own, ...node }
  })
  const storeNodeIds = new Set(storeNodes.map(({ id }) => id))
  return [...joined, ...fleetNodes.filter(({ id }) => !storeNodeIds.has(id))]
}

const adopt = operation({
  method: 'post',
  path: `${BASE}/adopt`,
  id: 'adopt',
  tag: 'Nodes',
  summary: 'Follow a rule store that was put back to an older state',
  description: 'Nodes refuse to follow a restored database until an operator adopts it.',
  role: 'admin',
  writes: true,
  answers: [{ status: 200, description: 'It is followed.', schema: changeResult }],
  async run({ meta }, { editor }) {
    return { status: 200, body: { version: await editor.adopt(meta) } }
  },
})

const checkBody: BodySpec<AskedCall> = {
  ...openBody(adminCheckInput),
  read: (sent) => readCall(sent, ADMIN_CHECK_FIELDS),
}

const callBody: BodySpec<AskedCall> = {
  ...openBody(callInput),
  read: (sent) => readCall(sent, PLAIN_FIELDS),
}

/** Masks secrets, so that a key is the same caller as at the gateway, and appears in no log. */
function withMaskedSecrets({ attributes, cost }: AskedCall, { hideSecrets }: AdminDeps): Call {
  return { attributes: hideSecrets(attributes), ...(cost !== undefined && { cost }) }
}

const check = operation({
  method: 'post',
  path: `${BASE}/check`,
  id: 'check',
  tag: 'Calls',
  summary: 'Decide a call, and spend',
  role: 'edit',
  body: checkBody,
  answers: [{ status: 200, description: 'The decision.', schema: adminDecisionView }],
  async run({ body }, deps) {
    const call = withMaskedSecrets(body, deps)
    const { decider } = deps
    const decision = await decider.check(call, 'admin', { gate: body.gate })
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
  answers: [{ status: 200, description: 'The decision.', schema: adminDecisionView }],
  async run({ body }, deps) {
    const call = withMaskedSecrets(body, deps)
    const { limiter } = deps.decider
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
  body: { ...openBody(inspectInput), read: (sent) => readCall(sent, RESET_FIELDS) },
  answers: [{ status: 200, description: 'The counters.', schema: inspectView }],
  async run({ body }, deps) {
    const { limiter } = deps.decider
    return {
      status: 200,
      body: await limiter.inspect(body.rule ?? '', withMaskedSecrets(body, deps)),
    }
  },
})

export const CALL_OPERATIONS: readonly Operation[] = [listNodes, adopt, check, peek, inspect]
