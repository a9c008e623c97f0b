/** Counts what calls to language models use. Labels are upstreams and fixed words. */
import type { Counter, Registry } from './registry.js'

/** The tokens of a call, as an answer reports them. */
interface CountedUsage {
  readonly input: number
  readonly cached: number
  readonly output: number
  readonly reasoning: number
}

const TOKEN_KINDS = ['input', 'cached', 'output', 'reasoning'] as const
const CALL_KINDS = ['reported', 'seen', 'reserved', 'none'] as const
const UNREAD_REASONS = ['type', 'encoding', 'absent'] as const
const ESTIMATED_KINDS = ['input', 'output'] as const

export interface UsageLabels {
  /** The origin. */
  readonly upstream: string
  readonly prefix: string
}

export interface UpstreamUsageMetrics {
  countCall(kind: (typeof CALL_KINDS)[number]): void
  countUsage(usage: CountedUsage, costs: { readonly spend?: number | undefined }): void
  countUnread(reason: (typeof UNREAD_REASONS)[number]): void
  /** Counts a stream that was ended because its budget was used up. */
  countStopped(): void
  /** Counts a call that stays at its reserve although its usage is known. */
  countUnsettled(): void
}

type RatioReader = (kind: (typeof ESTIMATED_KINDS)[number]) => number

export class UsageMetrics {
  readonly #tokens: Counter
  readonly #spend: Counter
  readonly #calls: Counter
  readonly #unread: Counter
  readonly #stopped: Counter
  readonly #unsettled: Counter
  readonly #ratios = new Map<UsageLabels, RatioReader>()

  constructor(registry: Registry) {
    this.#tokens = registry.counter(
      'sluice_usage_tokens_total',
      'Tokens that calls were charged: input and output, and of those cached and reasoning.',
      ['upstream', 'kind'],
    )
    this.#spend = registry.counter(
      'sluice_usage_spend_total',
      'Money that calls were charged by the configured prices, in millionths.',
      ['upstream'],
    )
    this.#calls = registry.counter(
      'sluice_usage_calls_total',
      'Calls by what they were charged: usage as reported, what was seen of an answer, the reserve, or no tokens.',
      ['upstream', 'charged'],
    )
    this.#unread = registry.counter(
      'sluice_usage_unread_total',
      'Calls charged their reserve because their answer could not be read (type, encoding) or had no usage (absent).',
      ['upstream', 'reason'],
    )
    this.#stopped = registry.counter(
      'sluice_usage_stopped_total',
      'Streams ended because the budget of their caller was used up.',
      ['upstream'],
    )
    this.#unsettled = registry.counter(
      'sluice_usage_unsettled_total',
      'Calls that stay at their reserve because they took longer than it lasts, or the store did not answer.',
      ['upstream'],
    )
    registry.gauge(
      'sluice_usage_estimate_ratio',
      'Tokens used for each estimated one, over the last calls of an upstream; 1 before the first.',
      'max',
      () => this.ratios(),
      ['upstream', 'prefix', 'kind'],
    )
  }

  /** Opens the series of one upstream at 0, so that an increase shows the first call. */
  open(labels: UsageLabels, ratioOf: RatioReader): UpstreamUsageMetrics {
    const { upstream } = labels
    this.#ratios.set(labels, ratioOf)
    for (const kind of TOKEN_KINDS) this.#tokens.labels(upstream, kind).inc(0)
    for (const kind of CALL_KINDS) this.#calls.labels(upstream, kind).inc(0)
    for (const reason of UNREAD_REASONS) this.#unread.labels(upstream, reason).inc(0)
    const stopped = this.#stopped.labels(upstream)
    const unsettled = this.#unsettled.labels(upstream)
    const spent = this.#spend.labels(upstream)
    return {
      countCall: (kind) => this.#calls.labels(upstream, kind).inc(),
      countUsage: (usage, { spend = 0 }) => {
        for (const kind of TOKEN_KINDS) this.#tokens.labels(upstream, kind).inc(usage[kind])
        spent.inc(spend)
      },
      countUnread: (reason) => this.#unread.labels(upstream, reason).inc(),
      countStopped: () => stopped.inc(),
      countUnsettled: () => unsettled.inc(),
    }
  }

  private ratios(): readonly (readonly [readonly string[], number])[] {
    return [...this.#ratios].flatMap(([{ upstream, prefix }, ratioOf]) =>
      ESTIMATED_KINDS.map((kind) => [[upstream, prefix, kind], ratioOf(kind)] as const),
    )
  }
}
