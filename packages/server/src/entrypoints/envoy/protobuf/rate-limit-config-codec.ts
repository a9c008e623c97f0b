/** Reads ratelimit.config.ratelimit.v3.RateLimitConfig, a resource of xDS, as protobuf. */
import type { JsonObject } from '../../../lib/json-map.js'
import { BYTES, ProtoError, ProtoReader, VARINT } from './proto-reader.js'
import { UNITS } from './rate-limit-codec.js'
import { readStructFields, type StructField } from './struct-codec.js'

/** As sent: nothing in it is validated yet. */
export interface ConfigResource {
  readonly name: string
  readonly domain: string
  readonly descriptors: readonly DescriptorResource[]
}

export interface DescriptorResource {
  readonly key: string
  /** Empty: any value. */
  readonly value: string
  readonly limit: LimitResource | undefined
  readonly descriptors: readonly DescriptorResource[]
  readonly isShadow: boolean
  readonly detailedMetric: boolean
  readonly isQuota: boolean
  readonly metadata: JsonObject | undefined
}

export interface LimitResource {
  /** The number as text where it has no name. */
  readonly unit: string
  readonly requestsPerUnit: number
  readonly isUnlimited: boolean
  readonly name: string
  readonly replaces: readonly string[]
}

/** As deep as a file of the same configuration may be. */
const LEVELS_MAX = 32
/**
 * In all resources of a response; a file may have half of them. Each takes about 1 KiB, and the
 * active configuration stays beside a new one until that is complete.
 */
const DESCRIPTORS_MAX = 200_000
/** In all resources of a response. Those of a limit are bounded when it is validated. */
const METADATA_VALUES_MAX = 100_000
/** More than the validation accepts in a list, so that it reports those. */
const REPLACES_MAX = 1000

const CONFIG_NAME = 8 + BYTES
const CONFIG_DOMAIN = 2 * 8 + BYTES
const CONFIG_DESCRIPTORS = 3 * 8 + BYTES
const DESCRIPTOR_KEY = 8 + BYTES
const DESCRIPTOR_VALUE = 2 * 8 + BYTES
const DESCRIPTOR_LIMIT = 3 * 8 + BYTES
const DESCRIPTOR_DESCRIPTORS = 4 * 8 + BYTES
const DESCRIPTOR_SHADOW_MODE = 5 * 8 + VARINT
const DESCRIPTOR_DETAILED_METRIC = 6 * 8 + VARINT
const DESCRIPTOR_QUOTA_MODE = 7 * 8 + VARINT
const DESCRIPTOR_METADATA = 8 * 8 + BYTES
const LIMIT_UNIT = 8 + VARINT
const LIMIT_REQUESTS = 2 * 8 + VARINT
const LIMIT_UNLIMITED = 3 * 8 + VARINT
const LIMIT_NAME = 4 * 8 + BYTES
const LIMIT_REPLACES = 5 * 8 + BYTES
const REPLACES_NAME = 8 + BYTES

/** What the resources of one response may still have, all together. */
export interface ResourceBudget {
  descriptors: number
  /** Values of metadata. */
  values: number
}

export function createResourceBudget(): ResourceBudget {
  return { descriptors: DESCRIPTORS_MAX, values: METADATA_VALUES_MAX }
}

/** Throws a ProtoError for bytes that are no such resource, and for more than the budget. */
export function decodeConfigResource(value: Uint8Array, budget: ResourceBudget): ConfigResource {
  const decoder = new ResourceDecoder(new ProtoReader(value), budget)
  return decoder.readConfig()
}

/** More parts of it may follow. */
interface DecodedLimit extends LimitResource {
  readonly replaces: string[]
}

class ResourceDecoder {
  readonly #reader: ProtoReader
  readonly #budget: ResourceBudget

  constructor(reader: ProtoReader, budget: ResourceBudget) {
    this.#reader = reader
    this.#budget = budget
  }

  readConfig(): ConfigResource {
    const reader = this.#reader
    const descriptors: DescriptorResource[] = []
    let name = ''
    let domain = ''
    for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
      if (tag === CONFIG_NAME) name = reader.string()
      else if (tag === CONFIG_DOMAIN) domain = reader.string()
      else if (tag === CONFIG_DESCRIPTORS) descriptors.push(this.readDescriptor(1))
      else reader.skip(tag)
    }
    return { name, domain, descriptors }
  }

  private readDescriptor(level: number): DescriptorResource {
    if (level > LEVELS_MAX) throw new ProtoError(`descriptors have more than ${LEVELS_MAX} levels`)
    if (this.#budget.descriptors-- <= 0) {
      throw new ProtoError(`more than ${DESCRIPTORS_MAX} descriptors in a response`)
    }
    const reader = this.#reader
    const outer = reader.enter()
    const descriptors: DescriptorResource[] = []
    let [key, value] = ['', '']
    let [isShadow, detailedMetric, isQuota] = [false, false, false]
    let limit: DecodedLimit | undefined
    let metadata: StructField[] | undefined
    for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
      if (tag === DESCRIPTOR_KEY) key = reader.string()
      else if (tag === DESCRIPTOR_VALUE) value = reader.string()
      else if (tag === DESCRIPTOR_LIMIT) limit = this.readLimit(limit)
      else if (tag === DESCRIPTOR_DESCRIPTORS) descriptors.push(this.readDescriptor(level + 1))
      else if (tag === DESCRIPTOR_SHADOW_MODE) isShadow = reader.bool()
      else if (tag === DESCRIPTOR_DETAILED_METRIC) detailedMetric = reader.bool()
      else if (tag === DESCRIPTOR_QUOTA_MODE) isQuota = reader.bool()
      else if (tag === DESCRIPTOR_METADATA) {
        metadata ??= []
        readStructFields(reader, metadata, this.#budget)
      } else reader.skip(tag)
    }
    reader.leave(outer)
    const flags = { isShadow, detailedMetric, isQuota }
    const fields = metadata && Object.fromEntries(metadata)
    return { key, value, limit, descriptors, ...flags, metadata: fields }
  }

  /** A message that is sent twice is merged: its fields replace only those of the same number. */
  private readLimit(before: DecodedLimit | undefined): DecodedLimit {
    const reader = this.#reader
    const outer = reader.enter()
    const replaces = before?.replaces ?? []
    let { unit, requestsPerUnit, isUnlimited, name } = before ?? NO_LIMIT
    for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
      if (tag === LIMIT_UNIT) unit = unitOf(reader.uint32())
      else if (tag === LIMIT_REQUESTS) requestsPerUnit = reader.uint32()
      else if (tag === LIMIT_UNLIMITED) isUnlimited = reader.bool()
      else if (tag === LIMIT_NAME) name = reader.string()
      else if (tag === LIMIT_REPLACES) {
        if (replaces.length === REPLACES_MAX) throw new ProtoError('too many replaced limits')
        replaces.push(this.readReplaced())
      } else reader.skip(tag)
    }
    reader.leave(outer)
    return { unit, requestsPerUnit, isUnlimited, name, replaces }
  }

  private readReplaced(): string {
    const reader = this.#reader
    const outer = reader.enter()
    let name = ''
    for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
      if (tag === REPLACES_NAME) name = reader.string()
      else reader.skip(tag)
    }
    reader.leave(outer)
    return name
  }
}

const NO_LIMIT = {
  unit: 'unknown',
  requestsPerUnit: 0,
  isUnlimited: false,
  name: '',
}

/** An enum of proto3 is open: a number without a name is reported when it is validated. */
function unitOf(number: number): string {
  return UNITS[number] ?? `${number}`
}
