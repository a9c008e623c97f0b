/** One connection to another member of a ring. It is never reopened: see `NodeConnection`. */
import { createConnection, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { RedisConnectionError } from '../redis/connection/driver.js'
import {
  KEEP_ALIVE_MS,
  type RedisSocket,
  type RedisSocketEvents,
  type Settle,
} from '../redis/connection/socket.js'
import { ReplyReader } from '../redis/protocol/read-reply.js'
import type { PeerAddress } from './members.js'

/** Certificates for connections that leave this machine, as `node:tls` takes them. */
export interface PeerTls {
  readonly ca: string
  readonly cert: string
  readonly key: string
}

/** So many answered commands are removed together, as each time costs a copy of the others. */
const SHORTEN_AFTER = 256

/** Never throws, and calls no event before it has returned. */
export type OpenPeer = (address: PeerAddress, events: RedisSocketEvents) => RedisSocket

/** Opens connections by sockets of the file system, by TCP, or by TLS. */
export function peerSockets(tls?: PeerTls): OpenPeer {
  return (address, events) => new PeerSocket(open(address, tls), events, usesTls(address, tls))
}

function open(address: PeerAddress, tls: PeerTls | undefined): Socket {
  if ('path' in address) return createConnection({ path: address.path })
  const { host, port } = address
  if (tls !== undefined) {
    // Whoever has a certificate of the ring's own authority is a member, whatever its address.
    const checkServerIdentity = () => undefined
    return connectTls({ host, port, ...tls, minVersion: 'TLSv1.3', checkServerIdentity })
  }
  return createConnection({ host, port, noDelay: true })
}

function usesTls(address: PeerAddress, tls: PeerTls | undefined): boolean {
  return tls !== undefined && !('path' in address)
}

class PeerSocket implements RedisSocket {
  readonly #socket: Socket
  readonly #events: RedisSocketEvents
  readonly #replies = new ReplyReader()
  /** The commands without a reply, in the order they were sent. */
  #waiting: { readonly index: number; readonly settle: Settle }[] = []
  #first = 0
  #hasOpened = false
  #hasEnded = false

  constructor(socket: Socket, events: RedisSocketEvents, isSecure: boolean) {
    this.#socket = socket
    this.#events = events
    socket.setKeepAlive(true, KEEP_ALIVE_MS)
    socket.setNoDelay(true)
    let reason = new Error('Closed by the peer')
    socket.once(isSecure ? 'secureConnect' : 'connect', () => {
      this.#hasOpened = true
      events.opened()
    })
    socket.on('data', (chunk) => this.read(chunk))
    socket.on('error', (error) => (reason = error))
    socket.once('close', () => this.end(reason))
  }

  get isWritable(): boolean {
    return this.#hasOpened && !this.#hasEnded && this.#socket.writable
  }

  send(...[commands, settle]: Parameters<RedisSocket['send']>): void {
    const socket = this.#socket
    if (commands.length > 1) socket.cork()
    for (const [index, command] of commands.entries()) {
      this.#waiting.push({ index, settle })
      socket.write(command.bytes())
    }
    if (commands.length > 1) socket.uncork()
  }

  subscribe(): Promise<void> {
    return Promise.reject(new RedisConnectionError('A member of a ring publishes nothing'))
  }

  destroy(): void {
    this.#hasEnded = true
    this.#socket.destroy()
  }

  private read(chunk: Buffer): void {
    if (this.#hasEnded) return
    this.#replies.push(chunk)
    try {
      for (let reply = this.#replies.next(); reply !== undefined; reply = this.#replies.next()) {
        this.takeWaiting()?.(reply)
        if (this.#hasEnded) return
      }
    } catch (error) {
      this.destroy()
      this.#events.ended(error instanceof Error ? error : new Error(String(error)))
    }
  }

  /** The settler of the oldest command without a reply. */
  private takeWaiting(): ((reply: Parameters<Settle>[1]) => void) | undefined {
    const waiting = this.#waiting[this.#first]
    if (waiting === undefined) throw new Error('A reply without a command')
    this.#first += 1
    const isEmpty = this.#first === this.#waiting.length
    // Under load some reply is always outstanding, so the list is shortened before it is empty.
    if (isEmpty || (this.#first >= SHORTEN_AFTER && this.#first * 2 > this.#waiting.length)) {
      this.#waiting = this.#waiting.slice(this.#first)
      this.#first = 0
    }
    return (reply) => waiting.settle(waiting.index, reply)
  }

  /** What waits is settled by the connection, which knows what it has sent. */
  private end(reason: Error): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#events.ended(reason)
  }
}
