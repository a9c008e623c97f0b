/** Serves the counters of this process to the other members of a ring. */
import { chmodSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import type { RedisReply } from '../redis/connection/driver.js'
import { RequestReader } from '../redis/protocol/read-request.js'
import { encodeReply } from '../redis/protocol/write-reply.js'
import type { PeerAddress } from './members.js'
import type { PeerTls } from './peer-socket.js'

/**
 * The longest request. Batches, and counters that are handed over, have at most 256 KB; a log that
 * two members kept has 20,000 entries of 16 bytes.
 */
export const REQUEST_BYTES_MAX = 384 * 1024
/** Far more than a ring has members. */
const CONNECTIONS_MAX = 1024
/** A member proves who it is in milliseconds; what takes longer keeps members from connecting. */
const HANDSHAKE_MS = 5000
/** A peer that reads no replies is disconnected when so much waits for it. */
const UNREAD_BYTES_MAX = 16 * 1024 * 1024

export interface PeerServerOptions {
  readonly listen: PeerAddress
  /** Required unless the address is on this machine. */
  readonly tls?: PeerTls | undefined
  /** Runs one request; must not throw. */
  readonly run: (words: readonly Buffer[]) => RedisReply | Error
  /** A connection was closed because of what it sent. */
  readonly onProblem: (message: string) => void
}

export interface PeerServer {
  /** Resolves when peers can connect, with the port where there is one. */
  readonly listening: Promise<number | undefined>
  close(): Promise<void>
}

export function startPeerServer(options: PeerServerOptions): PeerServer {
  const sockets = new Set<Socket>()
  const onSocket = (socket: Socket) => serveSocket(socket, options)
  const { listen, tls } = options
  const server: Server =
    tls === undefined
      ? createServer({ noDelay: true }, onSocket)
      : createTlsServer(
          {
            ...tls,
            requestCert: true,
            rejectUnauthorized: true,
            minVersion: 'TLSv1.3',
            handshakeTimeout: HANDSHAKE_MS,
          },
          onSocket,
        )
  // Also emitted for a connection that has not finished the handshake of TLS, or never will.
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.maxConnections = CONNECTIONS_MAX
  if (tls !== undefined) {
    server.on('tlsClientError', (error: Error) =>
      options.onProblem(`A peer was refused: ${error.message}`),
    )
  }
  return {
    listening: startListening(server, listen),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

function startListening(server: Server, listen: PeerAddress): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    // A process that was killed leaves its socket behind.
    if ('path' in listen) rmSync(listen.path, { force: true })
    server.once('error', reject)
    server.listen(listen, () => {
      server.off('error', reject)
      // What fails later, such as accepting with too many open files, must not end the process.
      server.on('error', () => {})
      if ('path' in listen) chmodSync(listen.path, 0o600)
      const address = server.address()
      resolve(typeof address === 'object' ? address?.port : undefined)
    })
  })
}

function serveSocket(socket: Socket, { run, onProblem }: PeerServerOptions): void {
  const requests = new RequestReader(REQUEST_BYTES_MAX)
  socket.on('error', () => {})
  const onData = (chunk: Buffer) => {
    requests.push(chunk)
    socket.cork()
    try {
      for (let words = requests.next(); words !== undefined; words = requests.next()) {
        socket.write(encodeReply(run(words)))
      }
    } catch (error) {
      onProblem(
        `A peer was disconnected: ${error instanceof Error ? error.message : String(error)}`,
      )
      socket.off('data', onData)
      socket.uncork()
      socket.destroySoon()
      return
    }
    socket.uncork()
    if (socket.writableLength > UNREAD_BYTES_MAX) socket.destroy()
  }
  socket.on('data', onData)
}
