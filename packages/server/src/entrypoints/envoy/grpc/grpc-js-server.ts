/**
 * Serves gRPC methods on an HTTP/2 server with @grpc/grpc-js, which reads and writes messages,
 * statuses, deadlines and compression. Connections belong to the listener, because grpc-js can
 * neither bound them nor close them without losing the calls that are on their way.
 */
import type { Http2SecureServer, Http2Server } from 'node:http2'
import {
  type sendUnaryData,
  Server,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
} from '@grpc/grpc-js'
import type { WallClock } from '../../../lib/wall-clock.js'
import type { ErrorReporter } from '../../http/error-reporter.js'
import { GRPC_CODES, GrpcError } from '../grpc-error.js'
import { REPORT_BYTES_MAX } from '../quota/quota-messages.js'
import { REQUEST_BYTES_MAX } from '../rate-limit-messages.js'
import { type GrpcStatus, statusOf, type UnaryMethod } from './grpc-service.js'
import type { HealthService } from './health.js'

/** A method with a stream of messages in each direction. */
export interface StreamMethod {
  readonly path: string
  /** Called when a client has opened a stream. */
  open(client: StreamClient): StreamHandler
}

/** What a method can do with the client of one stream. */
export interface StreamClient {
  /** Sends a message. False if the client reads too slowly; then `onDrained` is called later. */
  send(message: Uint8Array): boolean
  /** Ends the stream with the status of this error, or with OK. */
  end(error?: unknown): void
}

/** The side of the server of one stream. What a handler throws ends its stream with a status. */
export interface StreamHandler {
  onMessage(message: Uint8Array): void
  onDrained?(): void
  /** Called once, however the stream has ended. */
  onEnd?(): void
}

/** A method that answers each message with one message. */
export function answeringMethod(
  path: string,
  answer: (message: Uint8Array) => Uint8Array,
): StreamMethod {
  return {
    path,
    open: (client) => ({ onMessage: (message) => void client.send(answer(message)) }),
  }
}

export interface GrpcJsDeps {
  readonly unary: readonly UnaryMethod[]
  readonly streams: readonly StreamMethod[]
  readonly health: HealthService
  readonly errorReporter: Pick<ErrorReporter, 'log'>
  readonly clock: WallClock
  /** Called when a unary call was answered, with the number of its status. */
  readonly onAnswered?: ((method: UnaryMethod, status: number) => void) | undefined
}

const HEALTH_WATCH = '/grpc.health.v1.Health/Watch'
const OK = 0

/** Messages stay bytes here; the methods decode and encode them. */
const unchanged = (message: Buffer): Buffer => message

export function serveWithGrpcJs(server: Http2Server | Http2SecureServer, deps: GrpcJsDeps): void {
  const grpc = new Server({
    // One bound for all methods; `unaryHandler` has that of a request.
    'grpc.max_receive_message_length': REPORT_BYTES_MAX,
    // Its registry would hold every connection that ever was, until its statistics are read.
    'grpc.enable_channelz': 0,
  })
  for (const method of deps.unary) {
    grpc.register(method.path, unaryHandler(method, deps), unchanged, unchanged, 'unary')
  }
  for (const method of deps.streams) {
    grpc.register(method.path, streamHandler(method, deps), unchanged, unchanged, 'bidi')
  }
  grpc.register(HEALTH_WATCH, watchHandler(deps), unchanged, unchanged, 'serverStream')
  // Not public. The public ways to a server of one's own hide its sessions, without which no
  // connection can be announced to end; the version is pinned, and every test depends on this.
  grpc['_setupHandlers'](server, [])
}

/** Answers a unary call; the only place where its failure becomes a status. */
function unaryHandler(method: UnaryMethod, { errorReporter, clock, onAnswered }: GrpcJsDeps) {
  return (call: ServerUnaryCall<Buffer, Buffer>, callback: sendUnaryData<Buffer>): void => {
    const succeed = (response: Uint8Array) => {
      onAnswered?.(method, OK)
      callback(null, asBuffer(response))
    }
    const fail = (error: unknown) => {
      const status = statusOf(error, errorReporter)
      onAnswered?.(method, status.code)
      callback(failure(status))
    }
    try {
      requireSize(call.request)
      const answered = method.call(call.request, { timeoutMs: timeoutOf(call, clock) })
      if (answered instanceof Promise) answered.then(succeed, fail)
      else succeed(answered)
    } catch (error) {
      fail(error)
    }
  }
}

function requireSize({ length }: Buffer): void {
  if (length <= REQUEST_BYTES_MAX) return
  throw new GrpcError(
    GRPC_CODES.resourceExhausted,
    `the request has ${length} bytes: at most ${REQUEST_BYTES_MAX} are accepted`,
  )
}

function timeoutOf(call: ServerUnaryCall<Buffer, Buffer>, clock: WallClock): number | undefined {
  const deadlineMs = Number(call.getDeadline())
  return deadlineMs === Number.POSITIVE_INFINITY ? undefined : Math.max(0, deadlineMs - clock.now())
}

function streamHandler(method: StreamMethod, { errorReporter }: GrpcJsDeps) {
  return (call: ServerDuplexStream<Buffer, Buffer>): void => {
    let handler: StreamHandler | undefined
    let isEnded = false
    const finish = (): boolean => {
      if (isEnded) return false
      isEnded = true
      handler?.onEnd?.()
      return true
    }
    const client: StreamClient = {
      send(message) {
        if (isEnded) return true
        // A client that sends without reading waits until it has read.
        const hasRoom = call.write(asBuffer(message))
        if (!hasRoom) call.pause()
        return hasRoom
      },
      end(error) {
        if (!finish()) return
        if (error === undefined) call.end()
        else call.emit('error', failure(statusOf(error, errorReporter)))
      },
    }
    const guarded = (run: () => void) => {
      if (isEnded) return
      try {
        run()
      } catch (error) {
        client.end(error)
      }
    }
    guarded(() => (handler = method.open(client)))
    call.on('data', (message: Buffer) => guarded(() => handler?.onMessage(message)))
    call.on('drain', () => {
      call.resume()
      guarded(() => handler?.onDrained?.())
    })
    call.on('end', () => client.end())
    call.once('cancelled', finish)
    call.once('close', finish)
  }
}

function watchHandler({ health, errorReporter }: GrpcJsDeps) {
  return (call: ServerWritableStream<Buffer, Buffer>): void => {
    try {
      const stop = health.watch(call.request, {
        send: (response) => void call.write(response),
        end: () => call.emit('error', failure(STOPPING)),
      })
      call.once('cancelled', stop)
      call.once('close', stop)
    } catch (error) {
      call.emit('error', failure(statusOf(error, errorReporter)))
    }
  }
}

const STOPPING: GrpcStatus = { code: GRPC_CODES.unavailable, details: 'the server is stopping' }

/** The form in which grpc-js takes a status. */
function failure(status: GrpcStatus): Error & GrpcStatus {
  return Object.assign(new Error(status.details), status)
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
