/** The one door of the admin API: who is let in, or not, whatever is asked for. */
import type { HttpBindings } from '@hono/node-server'
import type { HonoRequest } from 'hono'
import { createThrottle } from '../log/throttle.js'
import { type Gate, type Holder, isForeign } from './access.js'
import type { AdminParts } from './admin-parts.js'
import { isLoopback, isTls } from './encrypted.js'
import { crossSite, forged, unauthorized } from './problem.js'
import type { OwnLimits } from './own-limits.js'
import { CSRF_HEADER, hasCookie, isSame, type Session, type Sessions } from './sessions.js'

/** What is known of whoever sent a request, beside who it is. */
export interface Sender {
  /** The id of the token; empty where nobody was asked. */
  readonly who: string
  /** Of the connection, or whom a trusted proxy names. */
  readonly address: string
  /** Whether nobody on the way could have read it. */
  readonly isEncrypted: boolean
  /** Whether it did not leave this machine, as its sender sees it. */
  readonly isLoopback: boolean
  /** Host and port as the sender knows them. */
  readonly host: string
  /** Whether only the head of the answer is wanted. */
  readonly isHead: boolean
  /** Undefined: it came with a token. */
  readonly session: Session | undefined
  /** Whether the same would still be let in. */
  readonly isLetIn: () => boolean
  /** Ends the connection in the middle of an answer. */
  readonly cut: () => void
}

export interface DoorParts extends AdminParts {
  readonly gate: Gate
  readonly sessions: Sessions
  readonly limits: OwnLimits
}

export interface Entrance {
  /** Undefined where nobody has to be known. */
  readonly holder: Holder | undefined
  readonly sender: Sender
  /** What the answer says of its own limits. */
  readonly headers: Readonly<Record<string, string>>
}

/** What the door has to know of what is asked for. */
interface AskedFor {
  readonly isOpen: boolean
  readonly writes: boolean
  /** Whether it is usual to come without credentials, to find out that some are needed. */
  readonly asksWho: boolean
}

export type Bindings = Partial<HttpBindings> | undefined
export type Door = (request: HonoRequest, env: Bindings, asked: AskedFor) => Entrance

const CHANGES_NOTHING: readonly string[] = ['GET', 'HEAD']

/** Fails closed: whoever is not known, or known to call too often, gets no further. */
export function createDoor(parts: DoorParts): Door {
  const { clock, log, gate, sessions, limits } = parts
  const throttle = createThrottle(clock)
  return (request, env, asked) => {
    const { host } = new URL(request.url)
    if (isForeign((name) => request.header(name), host)) throw crossSite()
    const authorization = request.header('authorization')
    const cookies = request.header('cookie')
    const letIn = () => whoIs(gate, sessions, authorization, cookies)
    const found = asked.isOpen ? undefined : letIn()
    const address = addressOf(env, parts)
    const sender: Sender = {
      who: found?.holder.id ?? '',
      address,
      isEncrypted: isEncrypted(request, env, parts),
      isLoopback: isLoopback(new URL(request.url).hostname),
      host,
      isHead: request.method === 'HEAD',
      session: found?.session,
      isLetIn: () => letIn()?.holder.id === found?.holder.id,
      cut: () => void env?.outgoing?.destroy(),
    }
    if (asked.isOpen) return { holder: undefined, sender, headers: {} }
    if (found === undefined) {
      // Who asks with nothing in hand guesses nothing, and needs the answer to find the way in.
      if (asked.asksWho && authorization === undefined && !hasCookie(cookies)) throw unauthorized()
      const passed = throttle.pass('unauthorized')
      if (passed !== undefined) {
        log.warn({ address, ...passed }, 'a call without a good admin token')
      }
      limits.failed(address)
      throw unauthorized()
    }
    const { holder, session } = found
    const headers = limits.call(holder.id, asked.writes)
    // By its method and not by what it is said to do: a browser sends the cookie whoever asks.
    if (session !== undefined && !CHANGES_NOTHING.includes(request.method)) {
      if (!isSame(request.header(CSRF_HEADER) ?? '', session.csrf)) throw forged()
    }
    return { holder, sender, headers }
  }
}

interface Found {
  readonly holder: Holder
  readonly session: Session | undefined
}

/** A token that is shown says who it is, and where it is wrong no cookie makes up for it. */
function whoIs(
  gate: Gate,
  sessions: Sessions,
  authorization: string | undefined,
  cookies: string | undefined,
): Found | undefined {
  if (authorization === undefined) {
    const session = sessions.read(cookies)
    return session && { holder: session.holder, session }
  }
  const holder = gate.holderOf(authorization)
  return holder && { holder, session: undefined }
}

/** Without a socket there is no address: such requests count together. */
const NO_ADDRESS = '0.0.0.0'

function addressOf(env: Bindings, { addressOf: given }: AdminParts): string {
  const incoming = env?.incoming
  if (incoming === undefined) return NO_ADDRESS
  return given?.(incoming) ?? incoming.socket.remoteAddress ?? NO_ADDRESS
}

/**
 * A page of our own says in `Origin` how it was fetched, and no script can say otherwise: so a
 * proxy that ends TLS need not be known here.
 */
function isEncrypted(
  request: HonoRequest,
  env: Bindings,
  { isEncrypted: given = isTls }: AdminParts,
): boolean {
  if (request.header('origin')?.startsWith('https://') === true) return true
  const incoming = env?.incoming
  return incoming !== undefined && given(incoming)
}
