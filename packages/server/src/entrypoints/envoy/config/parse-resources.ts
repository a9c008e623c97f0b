/**
 * Parses the response of a control plane as one configuration, accepted whole or not. Each resource
 * becomes the tree of a file that means the same, so that both have the same checks and messages.
 */
import { show } from '@sluice/core'
import type { MapEntry, MapNode, Node } from '@sluice/core/config-reader'
import { CooperativeYield } from '../../../lib/cooperative-yield.js'
import type { JsonObject, JsonValue } from '../../../lib/json-map.js'
import type { DiscoveryResource, DiscoveryResponse } from '../protobuf/discovery-codec.js'
import { ProtoError } from '../protobuf/proto-reader.js'
import {
  type ConfigResource,
  createResourceBudget,
  decodeConfigResource,
  type DescriptorResource,
  type LimitResource,
  type ResourceBudget,
} from '../protobuf/rate-limit-config-codec.js'
import {
  joinParsed,
  type ParseConfigOptions,
  type ParsedConfig,
  PROBLEMS_MAX,
} from './join-parsed.js'
import {
  createSeenDomains,
  type ParsedDomainFile,
  parseDomainTree,
  type SeenDomains,
} from './parse-domain-file.js'

export const CONFIG_TYPE_URL = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'

const TYPE_URL_SHOWN_MAX = 128

/** Decisions run in between: each resource is a slice of work. */
export async function parseResponse(
  { typeUrl, resources }: Pick<DiscoveryResponse, 'typeUrl' | 'resources'>,
  { mergeDomains = false }: ParseConfigOptions,
): Promise<ParsedConfig> {
  if (typeUrl !== CONFIG_TYPE_URL) return joinParsed([wrongType('response', typeUrl)])
  const seen = createSeenDomains(mergeDomains)
  const budget = createResourceBudget()
  const parsed: ParsedDomainFile[] = []
  let errors = 0
  const slice = new CooperativeYield()
  for (const [index, resource] of resources.entries()) {
    const one = parseResource(resource, `resource ${index + 1}`, { seen, budget })
    parsed.push(one)
    errors += one.errors.length
    // None is reported beyond these.
    if (errors >= PROBLEMS_MAX) break
    if (slice.isDue()) await slice.pause()
  }
  return joinParsed(parsed)
}

function parseResource(
  { typeUrl, value }: DiscoveryResource,
  place: string,
  { seen, budget }: { readonly seen: SeenDomains; readonly budget: ResourceBudget },
): ParsedDomainFile {
  if (typeUrl !== CONFIG_TYPE_URL) return wrongType(place, typeUrl)
  try {
    const resource = decodeConfigResource(value, budget)
    const file = resource.name === '' ? place : `resource ${resource.name}`
    return parseDomainTree(treeOf(resource), { file, seen })
  } catch (error) {
    if (!(error instanceof ProtoError)) throw error
    const accepted = 'a RateLimitConfig as protobuf'
    return refused(place, { field: 'value', found: error.message, accepted })
  }
}

function wrongType(place: string, typeUrl: string): ParsedDomainFile {
  const found = show(typeUrl === '' ? 'nothing' : typeUrl, TYPE_URL_SHOWN_MAX)
  return refused(place, { field: 'type_url', found, accepted: CONFIG_TYPE_URL })
}

/** What cannot be read has no name: it is known by its place. */
function refused(
  file: string,
  { field, found, accepted }: { field: string; found: string; accepted: string },
): ParsedDomainFile {
  const message = `${file}: ${field}: found ${found}. Accepted: ${accepted}`
  const problem = { code: 'wrong-type', file, field, found, accepted, message } as const
  return { config: undefined, errors: [problem], warnings: [] }
}

/** A node of a tree without text. */
const at = -1

function treeOf({ domain, descriptors }: ConfigResource): Node {
  return mapOf({ domain: scalarOf(domain), descriptors: descriptorsOf(descriptors) })
}

/** Leaves out the defaults of proto3, as a file does: most fields of a descriptor have them. */
function descriptorOf(resource: DescriptorResource): Node {
  const { key, limit, metadata } = resource
  return mapOf({
    key: scalarOf(key),
    value: textOf(resource.value),
    rate_limit: limit && limitOf(limit),
    descriptors: descriptorsOf(resource.descriptors),
    shadow_mode: flagOf(resource.isShadow),
    detailed_metric: flagOf(resource.detailedMetric),
    quota_mode: flagOf(resource.isQuota),
    metadata: metadata && nodeOf(metadata),
  })
}

function descriptorsOf(descriptors: readonly DescriptorResource[]): Node | undefined {
  return descriptors.length === 0 ? undefined : listOf(descriptors.map(descriptorOf))
}

function limitOf({ unit, requestsPerUnit, isUnlimited, name, replaces }: LimitResource): Node {
  const replaced = replaces.map((each) => mapOf({ name: scalarOf(each) }))
  return mapOf({
    // No unit and an unknown one are the same in a resource.
    unit: isUnlimited && unit === 'unknown' ? undefined : scalarOf(unit),
    requests_per_unit: scalarOf(requestsPerUnit),
    unlimited: flagOf(isUnlimited),
    name: textOf(name),
    replaces: replaced.length === 0 ? undefined : listOf(replaced),
  })
}

function textOf(text: string): Node | undefined {
  return text === '' ? undefined : scalarOf(text)
}

function flagOf(flag: boolean): Node | undefined {
  return flag ? scalarOf(true) : undefined
}

function nodeOf(value: JsonValue): Node {
  if (typeof value !== 'object' || value === null) return scalarOf(value)
  if (isList(value)) return listOf(value.map(nodeOf))
  return mapOf(Object.fromEntries(Object.entries(value).map(([key, each]) => [key, nodeOf(each)])))
}

function isList(value: readonly JsonValue[] | JsonObject): value is readonly JsonValue[] {
  return Array.isArray(value)
}

function scalarOf(value: string | number | boolean | null): Node {
  return { kind: 'scalar', at, value }
}

function listOf(items: readonly Node[]): Node {
  return { kind: 'list', at, items }
}

/** A map of the fields that are present. */
function mapOf(fields: Readonly<Record<string, Node | undefined>>): MapNode {
  const entries = new Map<string, MapEntry>()
  for (const [key, value] of Object.entries(fields)) {
    if (value !== undefined) entries.set(key, { at, key, value })
  }
  return { kind: 'map', at, entries, repeated: NONE, badKeys: NONE }
}

const NONE: readonly never[] = []
