/** Rules from a file: read at the start, and again when it changes. A bad set replaces nothing. */
import { readFileSync } from 'node:fs'
import { type Limiter, RulesError } from '@sluice/limiter'
import type { WallClock } from '../clock.js'
import { type WatchedFile, watchFile } from '../files/watch-file.js'
import type { Log } from '../log/logger.js'

export interface RulesFile {
  /** Counts the sets that were taken; 1 is the first. */
  version(): number
  /** Seconds since the file last held the rules in force; 0 while it does. */
  ageSeconds(): number
  failures(): number
  close(): void
}

export function readRulesFile(file: string): string {
  return readFileSync(file, 'utf8')
}

const PROBLEMS_LOGGED = 20

/** Keeps a limiter on the rules of a file; it has `text`, the first of them, already. */
export function followRulesFile(
  file: string,
  text: string,
  {
    limiter,
    log,
    clock,
  }: { readonly limiter: Limiter; readonly log: Log; readonly clock: WallClock },
): RulesFile {
  let inForce = text
  let version = 1
  let failures = 0
  let badSince: number | undefined
  const fail = (messages: readonly string[]) => {
    failures++
    badSince ??= clock.now()
    for (const problem of messages.slice(0, PROBLEMS_LOGGED)) {
      log.error({ file, problem }, 'rules refused; those in force stay')
    }
  }
  const take = (changed: string) => {
    // A file that was gone for a while may come back as it was.
    if (changed === inForce) return void (badSince = undefined)
    try {
      const warnings = limiter.setRules(changed, { file })
      inForce = changed
      version++
      badSince = undefined
      log.info({ file, version }, 'rules changed')
      for (const { message } of warnings) log.warn({ file, problem: message }, 'rules warning')
    } catch (error) {
      if (!(error instanceof RulesError)) return fail([String(error)])
      fail(error.problems.map(({ message }) => message))
    }
  }
  const watched: WatchedFile = watchFile(file, take, {
    known: text,
    onError: (error) => fail([error.message]),
  })
  return {
    version: () => version,
    ageSeconds: () => (badSince === undefined ? 0 : (clock.now() - badSince) / 1000),
    failures: () => failures,
    close: () => watched.close(),
  }
}
