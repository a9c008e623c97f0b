/**
 * What a node asks its own rate limit service before it is ready: requests of a domain that has a
 * configuration, and of one that rules decide, over a real connection.
 */
import { type ClientHttp2Session, connect } from 'node:http2'
import type { EnvoyConfigSource } from './config/config-source.js'
import { LimitTree } from './config/limit-tree.js'
import type { DescriptorConfig } from './config/domain-config.js'
import { SHOULD_RATE_LIMIT } from './grpc/grpc-service.js'
import { ProtoWriter } from './protobuf/proto-writer.js'
import type { DescriptorEntry } from './rate-limit-messages.js'

const CONFIGURED = 'sluice-warm-up'
const BY_RULES = 'sluice-warm-up-rules'
const PLENTY = 1_000_000
const PREFIX_BYTES = 5
/** An address reserved for documentation: no caller has it. */
const CLIENT = '192.0.2.1'

/** Limits of a second: their counters expire by themselves soon after. */
function limitOf(key: string, requestsPerUnit: number): DescriptorConfig {
  return {
    key,
    value: undefined,
    limit: { unit: 'second', requestsPerUnit, isUnlimited: false, name: '', replaces: [] },
    isShadow: false,
    isQuota: false,
    detailedMetric: false,
    valueToMetric: false,
    shareThreshold: false,
    metadata: undefined,
    descriptors: [],
  }
}

/** A configuration of its own. */
export function warmUpConfigSource(): EnvoyConfigSource {
  const descriptors = [limitOf('plenty', PLENTY), limitOf('more', PLENTY), limitOf('one', 1)]
  const tree = new LimitTree({ domain: CONFIGURED, descriptors })
  const config = { domains: new Map([[CONFIGURED, tree]]) }
  return {
    current: () => config,
    problem: () => undefined,
    loads: () => 0,
    failures: () => 0,
    onChange: () => {},
    close: () => {},
  }
}

type Descriptors = readonly (readonly DescriptorEntry[])[]

/** Framed requests: admitted and refused ones, by the configuration and by the rules of `paths`. */
export function warmUpRequests(paths: readonly string[]): readonly Buffer[] {
  const configured = (...keys: readonly string[]) =>
    requestOf(
      CONFIGURED,
      keys.map((key) => [{ key, value: CLIENT }]),
    )
  const byRules = paths.map((path) =>
    requestOf(BY_RULES, [
      [
        { key: 'path', value: path },
        { key: 'remote_address', value: CLIENT },
      ],
    ]),
  )
  return [configured('plenty'), configured('one'), configured('plenty', 'more'), ...byRules]
}

function requestOf(domain: string, descriptors: Descriptors): Buffer {
  const writer = new ProtoWriter()
  writer.start()
  writer.string(1, domain)
  for (const entries of descriptors) {
    const descriptor = writer.begin(2)
    for (const { key, value } of entries) {
      const entry = writer.begin(1)
      writer.string(1, key)
      writer.string(2, value)
      writer.end(entry)
    }
    writer.end(descriptor)
  }
  const message = writer.finish()
  const prefix = Buffer.alloc(PREFIX_BYTES)
  prefix.writeUInt32BE(message.length, 1)
  return Buffer.concat([prefix, message])
}

export interface WarmUpAnswer {
  /** The `grpc-status`; undefined if there was none. */
  readonly status: string | undefined
  /** The message of the response, without its prefix. */
  readonly message: Buffer
}

/** One connection to the rate limit service, in clear text. */
export class WarmUpClient {
  readonly #session: ClientHttp2Session

  /** `target`: host and port. */
  constructor(target: string) {
    this.#session = connect(`http://${target}`)
    // Calls on it fail by themselves.
    this.#session.on('error', () => {})
  }

  call(request: Buffer): Promise<WarmUpAnswer> {
    return new Promise((resolve, reject) => {
      const stream = this.#session.request({
        ':method': 'POST',
        ':path': SHOULD_RATE_LIMIT,
        'content-type': 'application/grpc',
        te: 'trailers',
      })
      const parts: Buffer[] = []
      let status: string | undefined
      stream.on('trailers', (trailers) => {
        const value = trailers['grpc-status']
        status = typeof value === 'string' ? value : undefined
      })
      stream.on('data', (part: Buffer) => parts.push(part))
      stream.on('error', reject)
      stream.on('close', () =>
        resolve({ status, message: Buffer.concat(parts).subarray(PREFIX_BYTES) }),
      )
      stream.end(request)
    })
  }

  close(): void {
    this.#session.destroy()
  }
}
