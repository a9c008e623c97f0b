/** Error messages of commands, and their exit codes. */
import { AdminError, InputError, UnreachableError } from '@sluice/client'
import { escapeTerminal } from './terminal-escape.js'

export const OK = 0
/** The call was refused, or the command found something. */
export const REFUSED = 1
/** There is no result: the command line is invalid, or the server did not answer. */
export const MISUSE = 2

/** An invalid command line: what was found, and what is accepted. */
export class UsageError extends Error {}

/** The server did not answer. A script must not mistake that for a refusal or a difference. */
export class NoAnswerError extends Error {}

/**
 * The output could not be written, for example on a full disk, so a script has no result to read.
 */
export class OutputError extends Error {}

const UNAUTHENTICATED = 401
const TOO_MANY = 429
const SERVER_FAILED = 500

const PROBLEMS_SHOWN_MAX = 101

interface Failure {
  readonly code: number
  /** Escaped for the terminal, with a line break at its end. */
  readonly text: string
}

const WITHOUT_ANSWER = [UsageError, NoAnswerError, OutputError, InputError] as const

export function describeFailure(error: unknown): Failure {
  if (WITHOUT_ANSWER.some((kind) => error instanceof kind) && error instanceof Error) {
    return { code: MISUSE, text: `${escapeTerminal(error.message)}\n` }
  }
  if (error instanceof AdminError) {
    return { code: isAnswer(error) ? REFUSED : MISUSE, text: describeRefusal(error) }
  }
  if (error instanceof UnreachableError) {
    const hint = error.isUncertain ? '' : 'Set another address with --url or SLUICE_ADMIN_URL.\n'
    return { code: MISUSE, text: `${escapeTerminal(error.message)}\n${hint}` }
  }
  const message = error instanceof Error ? error.message : String(error)
  return { code: REFUSED, text: `${escapeTerminal(message)}\n` }
}

function isAnswer({ status, code }: AdminError): boolean {
  if (code === 'unexpected' || status >= SERVER_FAILED) return false
  return status !== UNAUTHENTICATED && status !== TOO_MANY
}

/** Formats invalid rules like compiler messages: one line for each, beginning with its location. */
function describeRefusal({ code, detail, version, errors }: AdminError): string {
  if (errors.length > 0) {
    const shown = errors.slice(0, PROBLEMS_SHOWN_MAX)
    return shown.map(({ message }) => `${escapeTerminal(message)}\n`).join('')
  }
  if (code === 'version_conflict') {
    const now = version === undefined ? '' : `, now version ${version}`
    return `It was changed by someone else in the meantime${now}; nothing was changed. Run the command again.\n`
  }
  return `${escapeTerminal(detail)} (${escapeTerminal(code)})\n`
}
