/**
 * What to do with each error that Redis replies. An error it replies was an answer: apart from one
 * that nobody knows, it says that nothing was done.
 */

/**
 * - `load`: the script is not there; the same is sent with its source.
 * - `moved`, `ask`: another node has the slot; the same is sent there.
 * - `split`: the slot is on its way to another node; the same is sent counter by counter.
 * - `partition`: a sharding proxy hides several servers; one script for each partition is sent.
 * - `again`: it may pass in a moment; the same is sent once more, within the deadline.
 * - `reconnect`: this node is no primary any more; its successor is looked for, and asked again.
 * - `posture`: waiting does not help; the rule's posture answers.
 * - `loud`: as `posture`, and a person has to act: the configuration is wrong.
 * - `unknown`: an error nobody knows; it may have been done.
 */
export type ErrorAction =
  | 'load'
  | 'moved'
  | 'ask'
  | 'split'
  | 'partition'
  | 'again'
  | 'reconnect'
  | 'posture'
  | 'loud'
  | 'unknown'

const ERROR_ACTIONS = {
  NOSCRIPT: 'load',
  MOVED: 'moved',
  ASK: 'ask',
  TRYAGAIN: 'split',
  CLUSTERDOWN: 'again',
  LOADING: 'again',
  READONLY: 'reconnect',
  MASTERDOWN: 'reconnect',
  BUSY: 'posture',
  // A full Redis is not empty a few milliseconds later: a second try only adds to its work.
  OOM: 'posture',
  NOREPLICAS: 'posture',
  MAXCLIENTS: 'posture',
  WRONGTYPE: 'posture',
  MISCONF: 'loud',
  NOAUTH: 'loud',
  WRONGPASS: 'loud',
  NOPERM: 'loud',
  CROSSSLOT: 'partition',
} as const satisfies Record<string, ErrorAction>

type KnownErrorCode = keyof typeof ERROR_ACTIONS
export type StoreErrorCode = KnownErrorCode | 'ERR'

const CODES = Object.keys(ERROR_ACTIONS) as readonly KnownErrorCode[]
/** Errors inside a script came wrapped in a text of its own before Redis 7. */
const WRAPPED = new RegExp(`^ERR Error running script.*?[ -](${CODES.join('|')})\\b`)

/** The code of an error reply, whose message begins with it; `ERR` for all that have none. */
export function codeOf(message: string): StoreErrorCode {
  if (/^(?:-?ERR )?max number of clients reached/i.test(message)) return 'MAXCLIENTS'
  const word = /^[A-Z]+/.exec(message)?.[0]
  if (word !== undefined && isKnown(word)) return word
  const wrapped = WRAPPED.exec(message)?.[1]
  return wrapped !== undefined && isKnown(wrapped) ? wrapped : 'ERR'
}

export function actionOf(code: StoreErrorCode): ErrorAction {
  return code === 'ERR' ? 'unknown' : ERROR_ACTIONS[code]
}

/** Where a redirection points: `MOVED 3999 127.0.0.1:6381`; an empty host is the node itself. */
export function redirectionOf(message: string): { slot: number; address: string } | undefined {
  const found = /^(?:MOVED|ASK) (\d{1,5}) (\S+)$/.exec(message.trim())
  if (found === null) return undefined
  return { slot: Number(found[1]), address: found[2] ?? '' }
}

function isKnown(word: string): word is KnownErrorCode {
  return Object.hasOwn(ERROR_ACTIONS, word)
}
