/** Opens the limiter of a middleware: the one that it was given, or one for its rules. */
import { type Call, type Decision, parseRules, type Rule, SluiceError } from '@sluice/core'
import { type FileWatcher, watchFile } from '../fs/file-watcher.js'
import { readWholeFileSync } from '../fs/read-whole-file.js'
import { createLimiter } from '../limiter.js'
import type { Limiter } from '../limiter-types.js'
import type { RulesInput } from '../rule-set.js'
import type { Load } from '../shed/load-shedding.js'
import type { Store } from '../store.js'
import type { CallLimiter, MiddlewareLogger, RulesFile } from './middleware-options.js'
import { findWorkers } from './workers.js'
import type { WarningCode } from './warning-log.js'

export interface OwnedLimiter {
  readonly limiter: CallLimiter
  /** Whatever holds the counters: two middlewares with the same one may count twice. */
  readonly counters: object
  /** Whether a rule counts by `ip`; false where the rules are not known here. */
  countsByIp(): boolean
  /** Whether the rules name routes; false where the rules are not known here. */
  definesRoutes(): boolean
  /** Explains a decision, where the limiter can. */
  readonly explain: ((call: Call) => Promise<Decision>) | undefined
  /** Closes what was opened here: not a limiter that was given. */
  close(): Promise<void>
}

interface LimiterSource {
  readonly rules?: RulesInput | RulesFile | undefined
  readonly limiter?: CallLimiter | undefined
  readonly store?: Store | undefined
  readonly ipv6Prefix?: number | undefined
  readonly load?: Load | undefined
}

type Warn = (code: WarningCode, subject?: string) => void

export function openLimiter(
  source: LimiterSource,
  logger: MiddlewareLogger,
  warn: Warn,
): OwnedLimiter {
  const { limiter, rules } = source
  if (limiter !== undefined) return givenLimiter(limiter)
  if (rules === undefined) {
    throw new SluiceError('OPTION_INVALID', 'rules: found none; accepted: rules, or a limiter')
  }
  return new RulesLimiter({ ...source, rules }, logger, warn)
}

function givenLimiter(limiter: CallLimiter & Partial<Pick<Limiter, 'explain'>>): OwnedLimiter {
  return {
    limiter,
    counters: limiter,
    countsByIp: () => false,
    definesRoutes: () => false,
    explain: typeof limiter.explain === 'function' ? limiter.explain.bind(limiter) : undefined,
    close: () => Promise.resolve(),
  }
}

/** The rules of each store, as text by id, to notice that two definitions share counters. */
const storeRules = new WeakMap<Store, Map<string, string>>()

class RulesLimiter implements OwnedLimiter {
  readonly limiter: Limiter
  readonly counters: object
  readonly #watcher: FileWatcher | undefined
  readonly #logger: MiddlewareLogger
  readonly #hasLoad: boolean
  readonly #warn: Warn
  #countsByIp = false
  #definesRoutes = false

  constructor(
    source: LimiterSource & { readonly rules: RulesInput | RulesFile },
    logger: MiddlewareLogger,
    warn: Warn,
  ) {
    const { rules, store, ipv6Prefix, load } = source
    const file = isRulesFile(rules) ? rules.file : undefined
    const input = isRulesFile(rules) ? readRules(rules.file) : rules
    this.#logger = logger
    this.#hasLoad = load !== undefined
    this.#warn = warn
    this.limiter = createLimiter({ rules: input, file, store, ipv6Prefix, load })
    this.counters = store ?? this.limiter
    const parsed = this.inspect(input, file)
    for (const { message } of this.limiter.warnings) logger.warn(`sluice: rules: ${message}`)
    if (store !== undefined && isRedefined(store, parsed)) warn('shared-store')
    const workers = this.limiter.isSync ? findWorkers() : undefined
    if (workers !== undefined) warn('memory-workers', workers)
    if (file === undefined) return
    this.#watcher = watchFile(file, (text) => this.reload(text, file), {
      known: typeof input === 'string' ? input : undefined,
      onError: ({ message }) => logger.error(`sluice: rules not reloaded: ${message}`),
    })
  }

  countsByIp(): boolean {
    return this.#countsByIp
  }

  definesRoutes(): boolean {
    return this.#definesRoutes
  }

  explain = (call: Call): Promise<Decision> => this.limiter.explain(call)

  async close(): Promise<void> {
    this.#watcher?.close()
    await this.limiter.close()
  }

  /** Throws if the rules have errors, which the watcher reports; the active rules stay. */
  private reload(text: string, file: string): void {
    const warnings = this.limiter.setRules(text, { file })
    for (const { message } of warnings) this.#logger.warn(`sluice: rules: ${message}`)
    this.inspect(text, file)
  }

  /** Keeps what is asked of the rules later, and returns them. */
  private inspect(input: RulesInput, file: string | undefined): readonly Rule[] {
    const parsed = parseRules(input, { file }).rules
    const isSheddable = parsed?.shed !== undefined && parsed.shed.mode !== 'off'
    if (isSheddable && !this.#hasLoad) this.#warn('shed-without-load')
    const rules = parsed?.rules ?? []
    this.#countsByIp = rules.some(readsIp)
    this.#definesRoutes = (parsed?.routes.length ?? 0) > 0
    return rules
  }
}

function isRulesFile(rules: RulesInput | RulesFile): rules is RulesFile {
  return typeof rules === 'object' && 'file' in rules && !Array.isArray(rules)
}

function readRules(file: unknown): string {
  if (typeof file === 'string' && file !== '') return readFile(file)
  throw new SluiceError('OPTION_INVALID', `rules.file: found ${typeof file}; accepted: a path`)
}

function readFile(file: string): string {
  try {
    return readWholeFileSync(file)
  } catch (error) {
    if (error instanceof SluiceError) throw error
    const why = error instanceof Error ? error.message : String(error)
    throw new SluiceError('OPTION_INVALID', `rules.file: ${why}`, { cause: error })
  }
}

function readsIp({ by, mode }: Rule): boolean {
  return mode !== 'off' && by.includes('ip')
}

/** Whether another middleware gave this store a rule of the same id with another definition. */
function isRedefined(store: Store, rules: readonly Rule[]): boolean {
  const known = storeRules.get(store) ?? new Map<string, string>()
  storeRules.set(store, known)
  let isOther = false
  for (const rule of rules) {
    const text = JSON.stringify(rule)
    if ((known.get(rule.id) ?? text) !== text) isOther = true
    known.set(rule.id, text)
  }
  return isOther
}
