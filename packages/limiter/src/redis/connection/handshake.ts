/**
 * The commands sent on a new connection, all in one write: authentication, the database, and
 * whether the node can be used. The client libraries do not send them, because their errors contain
 * the failed command, and with AUTH that is the password.
 */
import { wordsCommand } from './run-command.js'
import { type RedisCommand, type RedisReply, RedisReplyError } from './driver.js'

export interface HandshakeOptions {
  readonly username: string | undefined
  readonly password: string | undefined
  readonly db: number
  /** Whether only a primary can be used. */
  readonly mustBePrimary: boolean
  /** Whether a wrong password is ignored if the server requires none. */
  readonly isPasswordOptional?: boolean | undefined
}

/** `fit`, `not-yet` (ask again on the same connection), or what is wrong. */
export type HandshakeVerdict = 'fit' | 'not-yet' | Error

export interface HandshakeStep {
  readonly command: RedisCommand
  judge(reply: RedisReply | Error, warn: (problem: Error) => void): HandshakeVerdict
}

export function handshakeSteps(options: HandshakeOptions): readonly HandshakeStep[] {
  const { username, password, db, mustBePrimary, isPasswordOptional = false } = options
  const steps: HandshakeStep[] = []
  if (password !== undefined) {
    const words = username === undefined ? [password] : [username, password]
    const judge = isPasswordOptional ? judgeOffer : judgeAuth
    steps.push({ command: wordsCommand(['AUTH', ...words]), judge })
  }
  if (db !== 0) steps.push({ command: wordsCommand(['SELECT', db]), judge: judgePlainly })
  steps.push({ command: wordsCommand(['PING']), judge: judgePing })
  if (mustBePrimary) steps.push({ command: wordsCommand(['ROLE']), judge: judgeRole })
  return steps
}

/** A password that the server does not require may be a mistake, but does not prevent use. */
function judgeAuth(reply: RedisReply | Error, warn: (problem: Error) => void): HandshakeVerdict {
  const isNeedless = /no password is set|without any password configured/
  if (!(reply instanceof RedisReplyError) || !isNeedless.test(reply.message)) {
    return judgePlainly(reply)
  }
  warn(new Error('The URL has a password, but the server requires none'))
  return 'fit'
}

/**
 * Judges the password of the nodes that was offered to a sentinel, which may have the same, another
 * or none. PING then shows whether it was needed.
 */
function judgeOffer(reply: RedisReply | Error): HandshakeVerdict {
  return reply instanceof RedisReplyError ? 'fit' : judgePlainly(reply)
}

function judgePlainly(reply: RedisReply | Error): HandshakeVerdict {
  return reply instanceof Error ? reply : 'fit'
}

/** It loads its data, or is a replica without a primary; both states end by themselves. */
const PASSING = /^(?:LOADING|MASTERDOWN) /
/** It will not serve this connection. */
const CLOSED_TO_US = /^(?:NOAUTH|WRONGPASS|DENIED) |max number of clients/

/** Any other error is an answer too; the store decides what it means for a command. */
function judgePing(reply: RedisReply | Error): HandshakeVerdict {
  if (!(reply instanceof RedisReplyError)) return judgePlainly(reply)
  if (PASSING.test(reply.message)) return 'not-yet'
  return CLOSED_TO_US.test(reply.message) ? reply : 'fit'
}

/** A user without the right to ROLE learns at the first write whether the node is a primary. */
function judgeRole(reply: RedisReply | Error): HandshakeVerdict {
  if (reply instanceof RedisReplyError) return 'fit'
  if (reply instanceof Error) return reply
  const role = Array.isArray(reply) ? String(reply[0]) : 'unknown'
  return role === 'master'
    ? 'fit'
    : new Error(`Sentinel names it as the primary, but its role is ${role}`)
}
