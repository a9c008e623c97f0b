/** A small pool of connections to Postgres, and whether it answered the last request. */
import { Client, Pool, type PoolClient, type QueryResultRow } from 'pg'
import { UnavailableError } from '../rule-store.js'
import { type ConnectionSettings, QUERY_MS_MAX } from './connection-settings.js'
import { describeFailure, isStatementError } from './postgres-errors.js'

const CONNECTIONS_MAX = 4
const IDLE_MS_MAX = 10_000
/**
 * The server cancels a statement after this share of the time that this node waits. Its error says
 * more than a timeout here, and a statement without a waiting client would go on: one that waits
 * for a lock keeps its connection, and polls would use up all connections of the server.
 */
const STATEMENT_SHARE = 0.9
const IDLE_IN_TRANSACTION_MS_MAX = 60_000
const CLOSE_MS_MAX = 2000

const BEGIN = {
  /** Each statement sees what was committed before it. */
  write: 'begin isolation level read committed',
  /** All statements see one snapshot. */
  read: 'begin isolation level repeatable read, read only',
} as const

function limits(withinMs: number): string {
  return (
    `set local statement_timeout = ${Math.ceil(withinMs * STATEMENT_SHARE)}; ` +
    `set local idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_MS_MAX}`
  )
}

/** Runs a statement. */
export type Query = <Row extends QueryResultRow>(
  text: string,
  values?: readonly unknown[],
) => Promise<readonly Row[]>

/** A transaction that the caller ends. */
export interface Transaction {
  readonly query: Query
  commit(): Promise<void>
  /** Called after `commit`, or instead of it to roll back: returns the connection to the pool. */
  end(): Promise<void>
}

export class Database {
  readonly name: string
  readonly #settings: ConnectionSettings
  readonly #pool: Pool
  #isConnected = false
  #problem: string | undefined = 'not reached yet'

  constructor(settings: ConnectionSettings) {
    this.name = settings.name
    this.#settings = settings
    this.#pool = new Pool({
      ...settings.options,
      max: CONNECTIONS_MAX,
      idleTimeoutMillis: IDLE_MS_MAX,
    })
    // An idle connection that ended; the next request gets another one.
    this.#pool.on('error', ignore)
    // A connection in use needs a listener too, or its error would be uncaught.
    this.#pool.on('connect', (client) => client.on('error', ignore))
  }

  get isConnected(): boolean {
    return this.#isConnected
  }

  get problem(): string | undefined {
    return this.#problem
  }

  /** Returns a connection outside of the pool, which is not connected yet. */
  newClient(): Client {
    return new Client(this.#settings.options)
  }

  /** Runs one statement in its own transaction. */
  async query<Row extends QueryResultRow>(
    text: string,
    values: readonly unknown[] = [],
    withinMs?: number,
  ): Promise<readonly Row[]> {
    return this.transact('write', (query) => query<Row>(text, values), withinMs)
  }

  /** Runs `work` in a transaction. */
  async transact<T>(
    kind: keyof typeof BEGIN,
    work: (query: Query) => Promise<T>,
    withinMs?: number,
  ): Promise<T> {
    const transaction = await this.begin(kind, withinMs)
    try {
      const result = await this.track(() => work(transaction.query))
      await this.track(() => transaction.commit())
      return result
    } finally {
      await transaction.end()
    }
  }

  /** Begins a transaction, each of whose statements has the timeout. */
  async begin(kind: keyof typeof BEGIN, withinMs = QUERY_MS_MAX): Promise<Transaction> {
    return this.track(async () => {
      const transaction = new PooledTransaction(await this.#pool.connect(), withinMs)
      try {
        await transaction.begin(kind)
        return transaction
      } catch (error) {
        await transaction.end()
        throw error
      }
    })
  }

  /** Records whether Postgres answered. Rejects with an error of the `RuleStore` contract. */
  async track<T>(work: () => Promise<T>): Promise<T> {
    try {
      const result = await work()
      this.#isConnected = true
      this.#problem = undefined
      return result
    } catch (error) {
      const failure = describeFailure(this.name, error)
      if (failure instanceof UnavailableError) {
        this.#isConnected = false
        this.#problem = failure.message
      }
      throw failure
    }
  }

  async close(): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS_MAX)
    })
    await Promise.race([this.#pool.end(), late])
    clearTimeout(timer)
    this.#isConnected = false
    this.#problem = 'closed'
  }
}

class PooledTransaction implements Transaction {
  readonly #client: PoolClient
  readonly #withinMs: number
  #isOpen = false
  /** Whether the connection cannot be reused. */
  #isLost = false

  constructor(client: PoolClient, withinMs: number) {
    this.#client = client
    this.#withinMs = withinMs
  }

  async begin(kind: keyof typeof BEGIN): Promise<void> {
    this.#isOpen = true
    await this.query(`${BEGIN[kind]}; ${limits(this.#withinMs)}`)
  }

  readonly query: Query = async <Row extends QueryResultRow>(
    text: string,
    values: readonly unknown[] = [],
  ) => {
    try {
      // Without values the text may contain several statements.
      const statement = values.length === 0 ? { text } : { text, values: [...values] }
      const limited = { ...statement, query_timeout: this.#withinMs }
      return (await this.#client.query<Row>(limited)).rows
    } catch (error) {
      this.#isLost ||= !isStatementError(error)
      throw error
    }
  }

  async commit(): Promise<void> {
    await this.query('commit')
    this.#isOpen = false
  }

  async end(): Promise<void> {
    try {
      if (this.#isOpen && !this.#isLost) await this.query('rollback')
    } catch {
      // The connection is lost, and the transaction with it.
      this.#isLost = true
    }
    this.#client.release(this.#isLost)
  }
}

function ignore(): void {
  // The pending statement rejects in any case.
}
