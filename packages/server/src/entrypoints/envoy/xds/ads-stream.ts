/** One stream of a control plane's aggregated discovery service, on a connection of its own. */
import {
  type ChannelCredentials,
  Client,
  connectivityState,
  credentials,
  Metadata,
  type StatusObject,
  status,
} from '@grpc/grpc-js'
import type { ClientTlsFiles } from '../../../config/config.js'
import { readPem } from '../../../lib/read-pem.js'

export interface AdsStreamOptions {
  /** `host:port`. */
  readonly server: string
  /** Undefined: clear text. */
  readonly tls: ClientTlsFiles | undefined
  /** Sent with the call, beside those of gRPC. */
  readonly headers: ReadonlyMap<string, string>
  /** A larger response ends the stream. */
  readonly maxMessageBytes: number
  /** How long opening the connection may take. */
  readonly connectMs: number
}

export interface AdsStream {
  /** Ends with the stream; what is not read stays with the control plane. */
  readonly messages: AsyncIterable<Buffer>
  send(message: Buffer): void
  isConnected(): boolean
  /** Why the stream ended. Known once `messages` has ended. */
  reason(): Promise<string>
  close(): void
}

const METHOD = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources'
/** Servers in Go disconnect a client that pings more often than every 5 minutes, by default. */
const KEEPALIVE_MS = 6 * 60_000
const KEEPALIVE_TIMEOUT_MS = 20_000

const unchanged = (message: Buffer): Buffer => message

/**
 * Opens a connection and a stream. The files of TLS are read anew, so that a renewed certificate is
 * used from the next connection on. Rejects if they cannot be read or used.
 */
export async function openAdsStream(options: AdsStreamOptions): Promise<AdsStream> {
  const { server, tls, headers, maxMessageBytes, connectMs } = options
  const hostName = tls?.servername ?? nameWithoutDot(server)
  const client = new Client(`dns:///${server}`, await credentialsOf(tls), {
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc.keepalive_time_ms': KEEPALIVE_MS,
    'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
    // A new stream is a new connection, which resolves the name again.
    'grpc.use_local_subchannel_pool': 1,
    'grpc.enable_retries': 0,
    'grpc.enable_channelz': 0,
    'grpc.service_config_disable_resolution': 1,
    // A proxy in the environment would be used without a setting of this server that says so.
    'grpc.enable_http_proxy': 0,
    ...(hostName !== undefined && { 'grpc.ssl_target_name_override': hostName }),
  })
  const metadata = new Metadata()
  for (const [name, value] of headers) metadata.set(name, value)
  const call = client.makeBidiStreamRequest(METHOD, unchanged, unchanged, metadata)
  const isConnected = () =>
    client.getChannel().getConnectivityState(false) === connectivityState.READY
  let isTimedOut = false
  const connecting = setTimeout(() => {
    if (isConnected()) return
    isTimedOut = true
    call.cancel()
  }, connectMs).unref()
  const ended = new Promise<StatusObject>((resolve) => call.once('status', resolve))
  // The status says it too, and only an iteration would listen.
  call.on('error', () => {})
  return {
    messages: untilEnd(call),
    send: (message) => void call.write(message),
    isConnected,
    reason: async () => {
      const ending = await ended
      return isTimedOut ? `no connection within ${connectMs} ms` : describeStatus(ending)
    },
    close() {
      clearTimeout(connecting)
      call.cancel()
      client.close()
    },
  }
}

/** A failed stream ends as a finished one: its status says which it was. */
async function* untilEnd(call: AsyncIterable<unknown>): AsyncGenerator<Buffer> {
  try {
    for await (const message of call) yield message as Buffer
  } catch {
    return
  }
}

function describeStatus({ code, details }: StatusObject): string {
  if (code === status.OK) return 'the control plane ended the stream'
  return details === '' ? `${status[code]}` : `${status[code]}: ${details}`
}

/** The name of an absolute one, whose dot TLS forbids: servers in Go refuse it. */
export function nameWithoutDot(server: string): string | undefined {
  return /^(.+)\.:\d+$/.exec(server)?.[1]
}

async function credentialsOf(tls: ClientTlsFiles | undefined): Promise<ChannelCredentials> {
  if (tls === undefined) return credentials.createInsecure()
  const { ca, cert, key } = await readPem(tls)
  const bufferOf = (text: string | undefined) => (text === undefined ? null : Buffer.from(text))
  return credentials.createSsl(bufferOf(ca), bufferOf(key), bufferOf(cert))
}
