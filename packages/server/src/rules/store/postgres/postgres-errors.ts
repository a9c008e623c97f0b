/** What Postgres, or the way to it, answered instead of what was asked for. */
import { messageOf } from '../../../lib/message-of.js'
import { ConflictError, DivergedError, UnavailableError } from '../rule-store.js'

/** Of SQLSTATE: what was asked for cannot be done, now or later, by anybody. */
const REFUSED_CLASSES = new Set(['22', '23', 'P0'])
/** The tables are not there: a database that was made anew. */
const MISSING_STATES = new Set(['3F000', '42P01', '42883', '42703'])
const READ_ONLY = '25006'
/** Ended because it took too long, or stood in line for a lock for too long. */
const LATE_STATES = new Set(['57014', '55P03'])

/** Five letters and digits; undefined: not Postgres said it. */
export function sqlStateOf(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  const isPostgres = error instanceof Error && 'severity' in error
  return isPostgres && typeof code === 'string' ? code : undefined
}

export function isSchemaMissing(error: unknown): boolean {
  return MISSING_STATES.has(sqlStateOf(error) ?? '')
}

/** Whether the connection can still be used after it. */
export function isStatementError(error: unknown): boolean {
  const state = sqlStateOf(error)
  // 57P: the server ends. 08: the connection does. 25: a standby, which may be the wrong place.
  return state !== undefined && !/^(57P|08|25)/.test(state)
}

/** As whoever uses the store is told: its own errors as they are, all others by name. */
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
  if (sqlStateOf(error) === READ_ONLY) return 'takes no changes here; is it a standby?'
  if (LATE_STATES.has(sqlStateOf(error) ?? '')) {
    return `${messageOf(error)}; does another session hold a lock on the tables of sluice?`
  }
  // Several addresses of one name: what is wrong stands in the parts alone.
  if (error instanceof AggregateError) return error.errors.map(messageOf).join('; ')
  return messageOf(error)
}
