/** Options that every drop-in store takes, and how they are read. */
import { show, SluiceError } from '@sluice/core'
import { type Clock, systemClock } from '../clock.js'
import {
  readDependency,
  readLocalCounters,
  readStore,
  requireLimiterOptions,
} from '../limiter-options.js'
import { memoryStore } from '../memory/memory-store.js'
import type { Store } from '../store.js'

/** What a drop-in store logs to; `console` is one. */
export interface DropInLogger {
  warn(message: string): void
}

/** Options of every drop-in store. */
export interface DropInOptions {
  /**
   * Where counters live: `redisStore` for several processes, `memoryStore` for one. It is closed
   * with the last drop-in store that uses it. @default a memory store of its own
   */
  readonly store?: Store | undefined
  /** Separates these counters from others in the same store. @default the host library's name */
  readonly prefix?: string | undefined
  /**
   * What happens while the store does not answer. `local`: hits are counted in this process, and
   * charged to the store when it is back. `reject`: the promise rejects with STORE_FAILED, so that
   * an error option of the host library decides. @default 'local'
   */
  readonly onSilence?: 'local' | 'reject' | undefined
  /** Most counters kept in this process while the store does not answer. @default 100_000 */
  readonly localCounters?: number | undefined
  /** Receives one line when the store falls silent, and one when it answers. @default none */
  readonly logger?: DropInLogger | undefined
  /** For tests: the wall clock, and that of the default store. @default the system's */
  readonly clock?: Clock | undefined
}

export interface DropInSettings {
  readonly store: Store
  readonly prefix: string
  readonly rejects: boolean
  readonly localCounters: number
  readonly logger: DropInLogger | undefined
  readonly clock: Clock
}

const NAMES = ['store', 'prefix', 'onSilence', 'localCounters', 'logger', 'clock'] as const
/** Bounds what every key of a counter is hashed with. */
const PREFIX_LENGTH_MAX = 256

/** Reads the common options; `more` are the names of options that this drop-in store adds. */
export function readDropInOptions(
  options: DropInOptions,
  defaultPrefix: string,
  more: readonly string[] = [],
): DropInSettings {
  requireLimiterOptions({ rules: undefined, ...options })
  requireNames(options, [...more, ...NAMES])
  const { onSilence = 'local', clock = systemClock, logger } = options
  readDependency('clock', clock, ['now'])
  if (onSilence !== 'local' && onSilence !== 'reject') {
    throw invalidOption('onSilence', show(onSilence), 'local, reject')
  }
  return {
    store: readStore(options.store ?? memoryStore({ clock })),
    prefix: readPrefix(options.prefix ?? defaultPrefix),
    rejects: onSilence === 'reject',
    localCounters: readLocalCounters(options.localCounters),
    logger: readLogger(logger),
    clock,
  }
}

export function requireNames(options: object, accepted: readonly string[]): void {
  const unknown = Object.keys(options).find((name) => !accepted.includes(name))
  if (unknown === undefined) return
  throw invalidOption('options', show(unknown), accepted.join(', '))
}

export function invalidOption(option: string, found: string, accepted: string): SluiceError {
  return new SluiceError('OPTION_INVALID', `${option}: found ${found}; accepted: ${accepted}`)
}

export function readLogger(logger: DropInLogger | undefined): DropInLogger | undefined {
  return logger && readDependency('logger', logger, ['warn'])
}

export function readPrefix(prefix: string): string {
  if (typeof prefix === 'string' && prefix.length <= PREFIX_LENGTH_MAX) return prefix
  const found = typeof prefix === 'string' ? `${prefix.length} characters` : typeof prefix
  throw invalidOption('prefix', found, `a text of at most ${PREFIX_LENGTH_MAX} characters`)
}
