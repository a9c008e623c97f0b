/**
 * Commands that let a Redis know every script before the first decision. What is sent by a hash
 * that Redis does not know is sent again with its source, and what was sent meanwhile overtakes it.
 *
 * Each is the script itself, with a time that has passed, so that it does nothing: a user of Redis
 * needs no right that decisions do not need.
 */
import { wordsCommand } from '../connection/run-command.js'
import type { RedisCommand } from '../connection/driver.js'
import { SCRIPTS } from './batch-scripts.js'

/** Not after 1 us since 1970, by the clock of Redis; in MessagePack. */
const TOO_LATE = Buffer.of(1, 0)

export const PRELOAD: readonly RedisCommand[] = SCRIPTS.map(({ source }) =>
  wordsCommand(['EVAL', source, 0, TOO_LATE]),
)
