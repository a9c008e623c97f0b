/** Shows a change: fields before and after, and the effect on counters. */
import type { CounterFate, RuleChange, RuleDiff } from '@sluice/client'
import { useMemo } from 'preact/hooks'
import { Badge, Text, type Tone } from '../../ui/index.js'
import { type DiffLine, diffLines, hunksOf } from './line-diff.js'

/** Rules listed at most. */
const RULES_SHOWN_MAX = 20
/** Longer values are shown below each other. */
const LINE_MAX = 44

export function DiffView({ diff }: { readonly diff: RuleDiff }) {
  if (diff.rules.length === 0 && diff.set.length === 0) {
    return <p class="soft">No changes.</p>
  }
  return (
    <div class="diff">
      {diff.rules.slice(0, RULES_SHOWN_MAX).map((change) => (
        <ChangeView key={change.id} change={change} />
      ))}
      {diff.rules.length > RULES_SHOWN_MAX && (
        <p class="faint">and {diff.rules.length - RULES_SHOWN_MAX} more rules</p>
      )}
    </div>
  )
}

function ChangeView({ change }: { readonly change: RuleChange }) {
  const { fields, counters, overrides } = change
  const overrideTexts = Object.entries(overrides).flatMap(([what, number]) =>
    number === 0 ? [] : `${number} ${what}`,
  )
  return (
    <div class="diff-rule">
      {change.change !== 'changed' && (
        <p>
          <Text value={change.id} mono /> is <b>{change.change}</b>.
        </p>
      )}
      {fields.length > 0 && (
        <dl class="diff-fields">
          {fields.map(({ field, before, after }) => (
            <div
              key={field}
              class={before.length + after.length > LINE_MAX ? 'diff-long' : undefined}
            >
              <dt>
                <Text value={field} mono />
              </dt>
              <dd>
                {change.change !== 'added' && (
                  <>
                    <del>
                      <Text value={before || 'none'} max={300} mono />
                    </del>{' '}
                    <span class="diff-arrow" aria-hidden="true">
                      →
                    </span>
                    <span class="visually-hidden">becomes</span>{' '}
                  </>
                )}
                <ins>
                  <Text value={after || 'none'} max={300} mono />
                </ins>
              </dd>
            </div>
          ))}
        </dl>
      )}
      {overrideTexts.length > 0 && <p>Overrides: {overrideTexts.join(', ')}.</p>}
      {counters.length > 0 && change.change !== 'added' && (
        <ul class="diff-counters" aria-label="Effect on counters">
          {counters.map((fate) => (
            <CounterFateView key={`${fate.where} ${fate.limit}`} fate={fate} />
          ))}
        </ul>
      )}
    </div>
  )
}

const FATES: Readonly<Record<CounterFate['counters'], readonly [Tone, string]>> = {
  'go on': ['allowed', 'kept'],
  'start anew': ['degraded', 'reset'],
  end: ['neutral', 'deleted'],
}

function CounterFateView({ fate }: { readonly fate: CounterFate }) {
  const [tone, label] = FATES[fate.counters] ?? (['neutral', fate.counters] as const)
  return (
    <li>
      <Badge tone={tone}>{label}</Badge>
      <span>
        counters of <Text value={fate.limit} mono />
        {fate.where !== 'limits' && (
          <span class="faint">
            {' '}
            in <Text value={fate.where} mono />
          </span>
        )}
        {fate.what !== '' && (
          <span class="soft">
            : <Text value={fate.what} max={300} />
          </span>
        )}
      </span>
    </li>
  )
}

interface LineDiffProps {
  readonly label: string
  readonly before: string
  readonly after: string
}

const SIGNS: Readonly<Record<DiffLine['kind'], string>> = { same: ' ', removed: '−', added: '+' }

/** The difference of two texts, line by line. */
export function LineDiff({ label, before, after }: LineDiffProps) {
  const lines = useMemo(() => hunksOf(diffLines(before, after)), [before, after])
  return (
    // biome-ignore lint/a11y: what scrolls must be reachable by keyboard
    <pre class="line-diff" tabIndex={0} role="region" aria-label={label}>
      {lines.map((line, index) =>
        line === undefined ? (
          <span key={index} class="line-gap">
            {'⋯\n'}
          </span>
        ) : (
          <DiffLineView key={index} line={line} />
        ),
      )}
    </pre>
  )
}

function DiffLineView({ line }: { readonly line: DiffLine }) {
  const text = `${SIGNS[line.kind]} ${line.text}\n`
  if (line.kind === 'removed') return <del class="line-removed">{text}</del>
  if (line.kind === 'added') return <ins class="line-added">{text}</ins>
  return <span class="line-same">{text}</span>
}
