/**
 * Receives notifications of new versions with LISTEN, on a connection of its own: Postgres notifies
 * only the session that listens, and only while it lasts. After a reconnect notifications may have
 * been missed, so it reports a change. A heartbeat detects a connection that died silently.
 *
 * Through a pooler in transaction mode no notification ever arrives. So after LISTEN this node
 * notifies itself as a probe; if the probe does not arrive, the store polls instead.
 */
import { randomBytes } from 'node:crypto'
import type { Client } from 'pg'
import type { Log } from '../../../observability/log/logger.js'
import { messageOf } from '../../../lib/message-of.js'
import type { Database } from './database.js'
import { describeFailure } from './postgres-errors.js'
import { type Intervals, pause, probeAgainMs, retryMs } from './intervals.js'

/** What triggers notify: see the migrations. */
const CHANNEL = 'sluice_version'
const CLOSE_MS_MAX = 1000

export interface VersionListenerOptions {
  readonly database: Database
  readonly log: Log
  readonly intervals: Intervals
  /** Called with the version, if it is known. */
  readonly onChange: (version: number | undefined) => void
}

export class VersionListener {
  readonly #options: VersionListenerOptions
  #state: 'down' | 'push' | 'swallowed' = 'down'
  #problem: string | undefined

  constructor(options: VersionListenerOptions) {
    this.#options = options
  }

  /** Whether notifications arrive. */
  get isListening(): boolean {
    return this.#state === 'push'
  }

  /** Why LISTEN failed, as text; undefined: it did not. */
  get problem(): string | undefined {
    return this.#problem
  }

  /** Resolves when it is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { database, intervals } = this.#options
    let [failures, swallowed] = [0, 0]
    while (!signal.aborted) {
      const session = new ListenSession(database.newClient(), signal)
      try {
        await this.listen(session)
      } catch (error) {
        this.#problem = `cannot listen: ${messageOf(describeFailure(database.name, error))}`
      }
      await session.close()
      if (this.#state === 'swallowed') {
        await pause(probeAgainMs(intervals, swallowed), signal)
        swallowed += 1
        continue
      }
      swallowed = 0
      failures = this.isListening ? 0 : failures + 1
      this.#state = 'down'
      await pause(retryMs(intervals, failures), signal)
    }
  }

  /** Rejects when the connection ends; resolves if notifications do not arrive through it. */
  private async listen(session: ListenSession): Promise<void> {
    const { intervals, onChange } = this.#options
    const probe = `sluice_probe_${randomBytes(8).toString('hex')}`
    const received = new Promise<boolean>((resolve) => {
      session.client.on('notification', ({ channel, payload }) => {
        if (channel === probe) resolve(true)
        else onChange(versionOf(payload))
      })
    })
    await session.race(session.client.connect())
    await session.race(session.client.query(`listen ${CHANNEL}; listen ${probe}`))
    // Changes before LISTEN were not notified; a read from now on includes them.
    onChange(undefined)
    if (!(await this.isProbeReceived(session, probe, received))) return
    await session.race(session.client.query(`unlisten ${probe}`))
    this.#state = 'push'
    this.#problem = undefined
    for (;;) {
      await session.pause(intervals.heartbeatMs)
      const beat = { text: 'select 1', query_timeout: intervals.heartbeatWithinMs }
      await session.race(session.client.query(beat))
    }
  }

  private async isProbeReceived(
    session: ListenSession,
    probe: string,
    received: Promise<boolean>,
  ): Promise<boolean> {
    const { database, intervals, log } = this.#options
    // Sent through another connection, like a change. If that fails, nothing is known of poolers.
    await session.race(database.query("select pg_notify($1, '')", [probe]))
    const late = session.pause(intervals.probeWithinMs).then(() => false)
    if (await Promise.race([received, late])) return true
    if (this.#state !== 'swallowed') {
      const every = `${intervals.pollAloneMs} ms`
      log.warn(
        { store: database.name },
        `rule store: LISTEN does not work through this pooler; polling every ${every} instead. Use the URL of Postgres itself, or of a pooler in session mode`,
      )
    }
    this.#state = 'swallowed'
    this.#problem = undefined
    return false
  }
}

function versionOf(payload: string | undefined): number | undefined {
  const version = Number(payload)
  return Number.isSafeInteger(version) && version > 0 ? version : undefined
}

/** A connection, and waits that end with it. */
class ListenSession {
  readonly client: Client
  readonly #closing: AbortSignal
  readonly #ending = new AbortController()
  /** Rejects of pending waits; removed when settled, since a connection lasts for weeks. */
  readonly #pending = new Set<(error: Error) => void>()
  #endError: Error | undefined

  constructor(client: Client, closing: AbortSignal) {
    this.client = client
    this.#closing = closing
    client.on('error', (error) => this.end(error))
    client.on('end', () => this.end(new Error('the connection ended')))
    closing.addEventListener('abort', this.#abort)
  }

  /** Rejects if the connection ends before. */
  async pause(ms: number): Promise<void> {
    await this.race(pause(ms, this.#ending.signal))
  }

  /** Rejects as soon as the connection ends, even if the work does not settle. */
  async race<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#endError === undefined) this.#pending.add(reject)
      else reject(this.#endError)
      work.then(resolve, reject).finally(() => this.#pending.delete(reject))
    })
  }

  /** Closes the connection gracefully, but waits for that only briefly. */
  async close(): Promise<void> {
    this.#closing.removeEventListener('abort', this.#abort)
    this.end(new Error('closed'))
    const { stream } = this.client.connection
    const goodbye = this.client.end().catch(() => undefined)
    const late = new AbortController()
    await Promise.race([goodbye, pause(CLOSE_MS_MAX, late.signal)])
    late.abort()
    stream.destroy()
  }

  readonly #abort = () => this.end(new Error('closed'))

  private end(error: Error): void {
    this.#endError ??= error
    for (const reject of this.#pending) reject(this.#endError)
    this.#pending.clear()
    this.#ending.abort()
  }
}
