/** A control plane on loopback that speaks aggregated discovery with the official definitions. */
import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js'
import { closeAfterTest, eventually } from '../envoy.test-helper.js'
import { officialService } from '../protobuf/official-protos.test-helper.js'
import { encodeConfig, type OfficialConfig } from '../protobuf/rate-limit-config.test-helper.js'

export const CONFIG_TYPE = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'

export interface SentRequest {
  readonly version_info: string
  readonly type_url: string
  readonly response_nonce: string
  readonly resource_names: readonly string[]
  readonly error_detail: { readonly code: number; readonly message: string } | null
  readonly node: {
    readonly id: string
    readonly user_agent_name: string
    readonly metadata: { readonly fields: object } | null
  }
}

export interface SentResponse {
  readonly version?: string
  readonly nonce?: string
  readonly typeUrl?: string
  readonly resources: readonly { readonly typeUrl?: string; readonly value: Uint8Array }[]
}

type Stream = ServerDuplexStream<SentRequest, object | Buffer>

export class TestControlPlane {
  /** The requests of each stream, the oldest first. */
  readonly streams: SentRequest[][] = []
  readonly headers: Record<string, unknown>[] = []
  #open: Stream | undefined
  #server: Server | undefined
  #port = 0
  #nonce = 0
  readonly #credentials: ServerCredentials

  constructor(serverCredentials = ServerCredentials.createInsecure()) {
    this.#credentials = serverCredentials
    closeAfterTest(() => this.stop())
  }

  get port(): number {
    return this.#port
  }

  /** The requests of the newest stream. */
  get requests(): readonly SentRequest[] {
    return this.streams.at(-1) ?? []
  }

  /** Listens; on the port it had before, if it has listened before. */
  async start(): Promise<this> {
    const server = new Server()
    server.addService(definition(), {
      StreamAggregatedResources: (stream: Stream) => this.accept(stream),
      DeltaAggregatedResources: (stream: Stream) => stream.end(),
    })
    this.#port = await new Promise((resolve, reject) => {
      server.bindAsync(`127.0.0.1:${this.#port}`, this.#credentials, (error, port) => {
        if (error === null) resolve(port)
        else reject(error)
      })
    })
    this.#server = server
    return this
  }

  /** Ends all connections, as a process that is killed. */
  stop(): void {
    this.#server?.forceShutdown()
    this.#server = undefined
    this.#open = undefined
  }

  /** Ends the stream as a server that is replaced. */
  endStream(): void {
    this.#open?.end()
    this.#open = undefined
  }

  /** Sends configurations as one version once there is a stream; returns its nonce. */
  async send(version: string, configs: readonly OfficialConfig[]): Promise<string> {
    const resources = configs.map((config) => ({ value: encodeConfig(config) }))
    return this.respond({ version, resources })
  }

  async respond(response: SentResponse): Promise<string> {
    const { version = '1', typeUrl = CONFIG_TYPE, resources } = response
    const nonce = response.nonce ?? `nonce-${++this.#nonce}`
    const stream = await this.stream()
    stream.write({
      version_info: version,
      type_url: typeUrl,
      nonce,
      resources: resources.map(({ typeUrl: type = CONFIG_TYPE, value }) => ({
        type_url: type,
        value,
      })),
    })
    return nonce
  }

  /** Sends bytes as a message. */
  async sendBytes(bytes: Buffer): Promise<void> {
    const stream = await this.stream()
    stream.write(bytes)
  }

  /** Resolves to the request that answers this nonce; it is a nack if it has an `error_detail`. */
  async answerOf(nonce: string): Promise<SentRequest> {
    const find = () =>
      this.streams.flat().find(({ response_nonce: answered }) => answered === nonce)
    await eventually(find).toBeDefined()
    return find() as SentRequest
  }

  private async stream(): Promise<Stream> {
    await eventually(() => this.#open !== undefined && this.requests.length > 0).toBe(true)
    return this.#open as Stream
  }

  private accept(stream: Stream): void {
    const requests: SentRequest[] = []
    this.streams.push(requests)
    this.headers.push(stream.metadata.getMap())
    this.#open = stream
    stream.on('data', (request: SentRequest) => requests.push(request))
    stream.on('end', () => stream.end())
    stream.on('error', () => {})
  }
}

/** The official service, which also sends bytes as they are. */
function definition() {
  const service = officialService('envoy.service.discovery.v3.AggregatedDiscoveryService')
  return Object.fromEntries(
    Object.entries(service).map(([name, method]) => {
      const { responseSerialize } = method
      const serialize = (value: object) =>
        Buffer.isBuffer(value) ? value : responseSerialize(value)
      return [name, { ...method, responseSerialize: serialize }]
    }),
  )
}
