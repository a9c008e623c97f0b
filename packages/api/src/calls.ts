/** Nodes, decisions of the admin API with their callers, and the counters behind them. */
import { z } from 'zod'
import { attributesInput, decisionSource } from './decisions.js'
import { type Input, version, type View } from './schema.js'

export const nodeView = z
  .object({
    id: z.string(),
    host: z.string(),
    pid: z.int(),
    release: z.string(),
    rulesVersion: version,
    startedAt: z.string(),
    seenMsAgo: z.number(),
    problem: z.string().optional(),
    decisionsPerSecond: z.number().optional(),
    refusalsPerSecond: z.number().optional(),
    clockOffsetMs: z.number().nullable().optional(),
    store: z.string().optional(),
  })
  .meta({ id: 'Node' })
export type NodeView = View<typeof nodeView>

export const regionView = z
  .object({
    region: z.string(),
    isAnswering: z.boolean().meta({ description: 'Whether its store answers this node.' }),
    lagMs: z.number().meta({
      description: 'Age of the oldest unit spent here that the region has not confirmed; 0: none.',
    }),
    pending: z.int().meta({ description: 'Counters of which it has not been told everything.' }),
    sent: z.number(),
    unknown: z.number(),
    dropped: z.number(),
    seenMsAgo: z.number().nullable().meta({
      description: 'When its last heartbeat was read here; null before the first.',
    }),
    nodes: z.int().nullable(),
    rulesVersion: z.string().nullable(),
    clockOffsetMs: z.number().nullable(),
  })
  .meta({ id: 'Region', description: 'Another region, as the node that answers knows it.' })
export type RegionView = View<typeof regionView>

export const ringMemberView = z
  .object({
    member: z.string(),
    isAnswering: z.boolean().meta({ description: 'Whether it answers the node that answers.' }),
    partitions: z.int().meta({ description: 'Partitions of the counters that it owns, of 128.' }),
    differsForMs: z.number().nullable().meta({
      description: 'For how long it has known other members; null: it knows the same.',
    }),
  })
  .meta({ id: 'RingMember', description: 'A process that holds a part of the counters.' })
export type RingMemberView = View<typeof ringMemberView>

export const nodesView = z
  .object({
    version: version.meta({ description: 'The version of the rules on the node that answers.' }),
    source: z.string(),
    readOnly: z.string().nullable(),
    news: z.enum(['push', 'poll', 'none']).nullable(),
    ageSeconds: z.number(),
    problem: z.string().nullable(),
    nodes: z.array(nodeView),
    regions: z
      .array(regionView)
      .optional()
      .meta({ description: 'The other regions; absent if there is only one.' }),
    ring: z
      .array(ringMemberView)
      .optional()
      .meta({ description: 'The members of the ring; absent where there is none.' }),
  })
  .meta({ id: 'Nodes' })
export type NodesView = View<typeof nodesView>

export const attributes = z.record(z.string(), z.string())
export type Attributes = View<typeof attributes>

export const callerView = z
  .object({ rule: z.string(), caller: attributes, hash: z.string() })
  .meta({ id: 'Caller', description: 'Logs and Redis contain the hash instead of the caller.' })
export type CallerView = View<typeof callerView>

export const adminDecisionView = z
  .looseObject({
    allowed: z.boolean(),
    reason: z.string(),
    rule: z.string().nullable().optional(),
    source: decisionSource,
    staleMs: z.number().optional().meta({
      description:
        'Age of the state that the decision used, in milliseconds; absent if the store decided.',
    }),
    callers: z.array(callerView),
  })
  .meta({
    id: 'AdminDecision',
    description: 'The decision (docs/reference/decision-api.md) and the callers that it counts.',
  })
export type AdminDecisionView = View<typeof adminDecisionView>

export const inspectInput = z
  .object({ rule: z.string(), attributes: attributesInput })
  .meta({ id: 'InspectInput', example: { rule: 'per-user', attributes: { user: 'u1' } } })
export type InspectInput = Input<typeof inspectInput>

export const counterView = z
  .object({
    limit: z.string(),
    where: z.string(),
    key: z.string(),
    partition: z.int(),
    node: z.string().nullable(),
    state: z.record(z.string(), z.unknown()).nullable(),
    ttlMs: z.number().nullable(),
    bytes: z.number().nullable(),
    remaining: z.number(),
    resetAfterMs: z.number(),
    holders: z
      .array(z.object({ holder: z.int(), places: z.int(), expiresAtMs: z.number() }))
      .optional()
      .meta({
        description:
          'Only for a limit of concurrency: the nodes that hold places, and until when if they do not renew them.',
      }),
    block: z
      .object({
        sinceMs: z.number().nullable(),
        untilMs: z.number().nullable(),
        times: z.int(),
      })
      .optional(),
    regions: z
      .array(
        z.object({
          region: z.string(),
          state: z.record(z.string(), z.unknown()).nullable().optional(),
          remaining: z.number().optional(),
          resetAfterMs: z.number().optional(),
          problem: z.string().optional(),
        }),
      )
      .optional()
      .meta({
        description:
          'The same counter in each other region, or the problem if it could not be read; absent if there is only one.',
      }),
  })
  .meta({ id: 'Counter' })
export type CounterView = View<typeof counterView>

export const inspectView = z
  .object({
    rule: z.string(),
    caller: attributes,
    hash: z.string(),
    counters: z.array(counterView),
  })
  .meta({ id: 'Inspected' })
export type InspectView = View<typeof inspectView>
