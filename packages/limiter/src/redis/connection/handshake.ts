/**
 * What is said on a new connection, all in one write: who we are, which database, and whether the
 * node is fit to be asked. Said by us and not by the libraries, because their errors carry the
 * words of the command that failed, and with AUTH that is the password.
 */
import { wordsCommand } from './run-command.js'
import { type RedisCommand, type RedisReply, RedisReplyError } from './driver.js'

export interface HandshakeOptions {
  readonly username: string | undefined
  readonly password: string | undefined
  readonly db: number
  /** Whether a node that is no primary is not fit. */
  readonly mustBePrimary: boolean
  /** Whether a password that the server does not take is no matter, if it asks for none. */
  readonly isPasswordOptional?: boolean | undefined
}

/** `fit`; `not-yet`, so ask the same connection again; or what is wrong. */
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

/** A password that nobody asked for is odd, and may be a mistake, but lets us in. */
function judgeAuth(reply: RedisReply | Error, warn: (problem: Error) => void): HandshakeVerdict {
  const isNeedless = /no password is set|without any password configured/
  if (!(reply instanceof RedisReplyError) || !isNeedless.test(reply.message)) {
    return judgePlainly(reply)
  }
  warn(new Error('The URL has a password, but the server asks for none'))
  return 'fit'
}

/**
 * A password of somebody else: a sentinel may have the same, another or none. Whether it lets us in
 * without one is what PING finds out.
 */
function judgeOffer(reply: RedisReply | Error): HandshakeVerdict {
  return reply instanceof RedisReplyError ? 'fit' : judgePlainly(reply)
}

function judgePlainly(reply: RedisReply | Error): HandshakeVerdict {
  return reply instanceof Error ? reply : 'fit'
}

/** It reads its data, or is a replica without a primary: both pass. */
const PASSING = /^(?:LOADING|MASTERDOWN) /
/** It will not serve this connection. */
const CLOSED_TO_US = /^(?:NOAUTH|WRONGPASS|DENIED) |max number of clients/

/** Any other error is an answer too: what it means for a command is for the store to say. */
function judgePing(reply: RedisReply | Error): HandshakeVerdict {
  if (!(reply instanceof RedisReplyError)) return judgePlainly(reply)
  if (PASSING.test(reply.message)) return 'not-yet'
  return CLOSED_TO_US.test(reply.message) ? reply : 'fit'
}

/** Whoever may not ask for the role finds out by the first write. */
function judgeRole(reply: RedisReply | Error): HandshakeVerdict {
  if (reply instanceof RedisReplyError) return 'fit'
  if (reply instanceof Error) return reply
  const role = Array.isArray(reply) ? String(reply[0]) : 'unknown'
  return role === 'master' ? 'fit' : new Error(`The sentinels name it, but its role is ${role}`)
}
