/**
 * Commands that load every script into Redis before the first decision. Otherwise the first batch
 * would be sent again with its source, and later batches would overtake it.
 *
 * Each runs the script itself with a deadline in the past, so that it does nothing: the user in
 * Redis needs no rights beyond those that decisions need.
 */
import { wordsCommand } from '../connection/run-command.js'
import type { RedisCommand } from '../connection/driver.js'
import { SCRIPTS } from './batch-scripts.js'

/** The deadline 1 us after 1970 by the clock of Redis, in MessagePack. */
const TOO_LATE = Buffer.of(1, 0)

export const PRELOAD: readonly RedisCommand[] = SCRIPTS.map(({ source }) =>
  wordsCommand(['EVAL', source, 0, TOO_LATE]),
)
