/**
 * What to do about each error that Redis replies. An error reply means that the command did
 * nothing, except for unknown codes, which may come from the middle of a script.
 */

/**
 * - `load`: the script is not loaded; send it again with its source.
 * - `moved`, `ask`: another node has the slot; send it there.
 * - `split`: the slot is migrating; send one script per counter.
 * - `partition`: a sharding proxy hides several servers; send one script per partition.
 * - `again`: the error may be transient; send it once more, within the deadline.
 * - `reconnect`: this node is no longer the primary; find the new one and send it again.
 * - `posture`: waiting does not help; the rule's posture decides.
 * - `loud`: as `posture`, and the problem is logged, because the configuration is wrong.
 * - `unknown`: an unknown error; the command may have run.
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
  // Redis stays full for longer than a few milliseconds, and a second attempt only adds load.
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
/** Before Redis 7, errors inside a script were wrapped in another message. */
const WRAPPED = new RegExp(`^ERR Error running script.*?[ -](${CODES.join('|')})\\b`)

/** The code at the start of an error message; `ERR` if there is none or it is not known. */
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

/** Parses a redirection such as `MOVED 3999 127.0.0.1:6381`. An empty host is the node itself. */
export function redirectionOf(message: string): { slot: number; address: string } | undefined {
  const found = /^(?:MOVED|ASK) (\d{1,5}) (\S+)$/.exec(message.trim())
  if (found === null) return undefined
  return { slot: Number(found[1]), address: found[2] ?? '' }
}

function isKnown(word: string): word is KnownErrorCode {
  return Object.hasOwn(ERROR_ACTIONS, word)
}
