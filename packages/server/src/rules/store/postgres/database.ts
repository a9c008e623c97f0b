/** A few connections to Postgres, and whether it answered when it was last asked. */
import { Client, Pool, type PoolClient, type QueryResultRow } from 'pg'
import { UnavailableError } from '../rule-store.js'
import { type ConnectionSettings, QUERY_MS_MAX } from './connection-settings.js'
import { describeFailure, isStatementError } from './postgres-errors.js'

const CONNECTIONS_MAX = 4
const IDLE_MS_MAX = 10_000
/**
 * Of the time that this node waits: then the server ends a statement by itself. It says more than
 * this node giving up would, and a statement that nobody waits for would go on there: one that
 * stands in line for a lock keeps its connection, and polls would take all that the server has.
 */
const STATEMENT_SHARE = 0.9
const IDLE_IN_TRANSACTION_MS_MAX = 60_000
const CLOSE_MS_MAX = 2000

const BEGIN = {
  /** Each statement sees what is committed by then. */
  write: 'begin isolation level read committed',
  /** All statements see one moment. */
  read: 'begin isolation level repeatable read, read only',
} as const

function limits(withinMs: number): string {
  return (
    `set local statement_timeout = ${Math.ceil(withinMs * STATEMENT_SHARE)}; ` +
    `set local idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_MS_MAX}`
  )
}

/** Asks within a transaction, or by itself. */
export type Query = <Row extends QueryResultRow>(
  text: string,
  values?: readonly unknown[],
) => Promise<readonly Row[]>

/** A transaction that somebody else ends. */
export interface Transaction {
  readonly query: Query
  commit(): Promise<void>
  /** After `commit`, or instead of it: gives the connection back. */
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
    // A connection that ended while nobody used it; whoever asks next gets another.
    this.#pool.on('error', ignore)
    // For as long as it lasts: between the pool and whoever it is lent to, nobody else listens.
    this.#pool.on('connect', (client) => client.on('error', ignore))
  }

  get isConnected(): boolean {
    return this.#isConnected
  }

  get problem(): string | undefined {
    return this.#problem
  }

  /** A connection of its own, that is not connected yet. */
  newClient(): Client {
    return new Client(this.#settings.options)
  }

  /** One statement by itself. */
  async query<Row extends QueryResultRow>(
    text: string,
    values: readonly unknown[] = [],
    withinMs?: number,
  ): Promise<readonly Row[]> {
    return this.transact('write', (query) => query<Row>(text, values), withinMs)
  }

  /** All of `work` or nothing. */
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

  /** Each of its statements within so long. */
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

  /** Notes how it went. Rejects with what whoever uses the store is told. */
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
  /** Whether the connection is of no more use to anybody. */
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
      // Without values it may be several statements.
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
      // The connection is lost, and so is what was to be undone.
      this.#isLost = true
    }
    this.#client.release(this.#isLost)
  }
}

function ignore(): void {
  // The statement that waits is told anyway.
}
