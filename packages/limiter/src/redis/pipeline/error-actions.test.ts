import { describe, expect, test } from 'vitest'
import { actionOf, codeOf, redirectionOf } from './error-actions.js'

/** Real messages of servers, and the actions of the store. */
const REPLIES = [
  ['NOSCRIPT No matching script. Please use EVAL.', 'NOSCRIPT', 'load'],
  ['MOVED 3999 127.0.0.1:6381', 'MOVED', 'moved'],
  ['ASK 3999 127.0.0.1:6381', 'ASK', 'ask'],
  ['TRYAGAIN Multiple keys request during rehashing of slot', 'TRYAGAIN', 'split'],
  ['CLUSTERDOWN The cluster is down', 'CLUSTERDOWN', 'again'],
  ["CROSSSLOT Keys in request don't hash to the same slot", 'CROSSSLOT', 'partition'],
  ['LOADING Redis is loading the dataset in memory', 'LOADING', 'again'],
  [
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    'MASTERDOWN',
    'reconnect',
  ],
  ["READONLY You can't write against a read only replica.", 'READONLY', 'reconnect'],
  ["OOM command not allowed when used memory > 'maxmemory'.", 'OOM', 'posture'],
  ['BUSY Redis is busy running a script.', 'BUSY', 'posture'],
  ['NOREPLICAS Not enough good replicas to write.', 'NOREPLICAS', 'posture'],
  ['MISCONF Redis is configured to save RDB snapshots', 'MISCONF', 'loud'],
  ['NOAUTH Authentication required.', 'NOAUTH', 'loud'],
  ['WRONGPASS invalid username-password pair or user is disabled.', 'WRONGPASS', 'loud'],
  ["NOPERM this user has no permissions to run the 'evalsha' command", 'NOPERM', 'loud'],
  ['WRONGTYPE Operation against a key holding the wrong kind of value', 'WRONGTYPE', 'posture'],
  ['ERR max number of clients reached', 'MAXCLIENTS', 'posture'],
] as const

describe('errors of Redis', () => {
  test.each(REPLIES)('%s', (message, code, action) => {
    expect([codeOf(message), actionOf(codeOf(message))]).toEqual([code, action])
  })

  test('the code is found inside the wrapping of servers before Redis 7', () => {
    const wrapped =
      "ERR Error running script (call to f_1a2b): @user_script:12: -OOM command not allowed when used memory > 'maxmemory'."
    expect(codeOf(wrapped)).toBe('OOM')
    expect(codeOf('ERR Error running script (call to f_1): @user_script:3: READONLY no')).toBe(
      'READONLY',
    )
  })

  test.each(['ERR unknown command', 'SOMETHING new', '', 'constructor x', '__proto__'])(
    'an unknown error may come from a script that ran: %j',
    (message) => {
      expect(actionOf(codeOf(message))).toBe('unknown')
    },
  )

  test('a redirection names its node by host name, IPv4 or IPv6 address', () => {
    expect(redirectionOf('ASK 12 redis-3.internal:6381')?.address).toBe('redis-3.internal:6381')
    expect(redirectionOf('MOVED 16383 ::1:6381')).toEqual({ slot: 16383, address: '::1:6381' })
    expect(redirectionOf('MOVED here')).toBeUndefined()
  })
})
