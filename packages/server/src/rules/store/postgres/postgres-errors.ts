/** Classifies and describes errors of Postgres and of connections to it. */
import { messageOf } from '../../../lib/message-of.js'
import { ConflictError, DivergedError, UnavailableError } from '../rule-store.js'

/** Classes of SQLSTATE for statements that fail whenever they are repeated. */
const REFUSED_CLASSES = new Set(['22', '23', 'P0'])
/** The tables are missing: the database was created again. */
const MISSING_STATES = new Set(['3F000', '42P01', '42883', '42703'])
const READ_ONLY = '25006'
/** Cancelled because the statement, or its wait for a lock, took too long. */
const LATE_STATES = new Set(['57014', '55P03'])

/** Returns the SQLSTATE, five letters and digits; undefined if Postgres did not send the error. */
export function sqlStateOf(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  const isPostgres = error instanceof Error && 'severity' in error
  return isPostgres && typeof code === 'string' ? code : undefined
}

export function isSchemaMissing(error: unknown): boolean {
  return MISSING_STATES.has(sqlStateOf(error) ?? '')
}

/** Whether the connection can still be used after the error. */
export function isStatementError(error: unknown): boolean {
  const state = sqlStateOf(error)
  // 57P: the server shuts down. 08: the connection ended. 25: a standby, perhaps after a failover.
  return state !== undefined && !/^(57P|08|25)/.test(state)
}

/** Returns errors of the `RuleStore` contract unchanged, and wraps all others with the name. */
export function describeFailure(name: string, error: unknown, isUncertain = false): Error {
  const isOurs =
    error instanceof UnavailableError ||
    error instanceof ConflictError ||
    error instanceof DivergedError ||
    error instanceof RangeError
  if (isOurs) return error
  const message = `${name}: ${describe(error)}`
  const state = sqlStateOf(error)
  if (REFUSED_CLASSES.has(state?.slice(0, 2) ?? '')) return new Error(message, { cause: error })
  return new UnavailableError(message, { cause: error, isUncertain })
}

function describe(error: unknown): string {
  if (sqlStateOf(error) === READ_ONLY) return 'the database is read-only; is it a standby?'
  if (LATE_STATES.has(sqlStateOf(error) ?? '')) {
    return `${messageOf(error)}; does another session hold a lock on the tables of sluice?`
  }
  // A host name with several addresses: only the inner errors say what is wrong.
  if (error instanceof AggregateError) return error.errors.map(messageOf).join('; ')
  return messageOf(error)
}
