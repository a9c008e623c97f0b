/** The explanation of a request: the decision first, then every rule. */
import { count, percent } from '../../format.js'
import { hrefs } from '../../router.js'
import {
  Badge,
  Caller,
  Card,
  Empty,
  Link,
  ModeBadge,
  Note,
  Sign,
  Table,
  Text,
} from '../../ui/index.js'
import { spanText, waitText } from '../rules/rule-text.js'
import type { RuleVerdict } from './rule-verdict.js'
import {
  type Explanation,
  type LimitExplanation,
  type RuleExplanation,
  stateText,
  limitVerdict,
} from './explanation.js'

/** Non-matching rules shown at most; a rule set has up to ten thousand. */
const UNMATCHED_SHOWN_MAX = 100

interface ExplanationViewProps {
  readonly explanation: Explanation
  /** The verdict about the rule in question, shown first. */
  readonly ruleVerdict: RuleVerdict | undefined
}

export function ExplanationView({ explanation, ruleVerdict }: ExplanationViewProps) {
  const { isAllowed, summary, priority, decidedBy, shadow, matched, unmatched } = explanation
  const tone = isAllowed ? 'allowed' : 'refused'
  return (
    <>
      {ruleVerdict !== undefined && (
        <Note tone={ruleVerdict.tone}>
          <p>
            <Text value={ruleVerdict.text} max={400} />
          </p>
          {ruleVerdict.why !== undefined && (
            <p class="soft small">
              <Text value={ruleVerdict.why} max={300} />
            </p>
          )}
        </Note>
      )}
      <section class={`why-decision tone-${tone}`} aria-label="Decision">
        <Sign tone={tone} />
        <div>
          <p class="why-summary">
            <Text value={summary} max={400} />
          </p>
          <p class="soft small">
            Decided {decidedBy}.
            {priority !== undefined && (
              <>
                {' '}
                Priority <Text value={priority} />.
              </>
            )}
          </p>
        </div>
      </section>
      {shadow.length > 0 && (
        <Note tone="shadow" title="Would be refused in shadow">
          <p>
            By <Text value={shadow.join(', ')} max={300} mono />. Shadow rules and candidates never
            refuse requests.
          </p>
        </Note>
      )}
      {matched.length === 0 ? (
        <Card title="Matching rules">
          <Empty title="No rule matches this request" />
        </Card>
      ) : (
        matched.map((rule) => <MatchedRule key={rule.rule} rule={rule} />)
      )}
      {unmatched.length > 0 && <UnmatchedRules rules={unmatched} />}
    </>
  )
}

function MatchedRule({ rule }: { readonly rule: RuleExplanation }) {
  return (
    <Card
      title={rule.rule}
      lead={
        <span class="why-caller">
          <ModeBadge mode={rule.mode} />
          <Caller attributes={rule.caller ?? {}} />
          {rule.hash !== null && (
            <span class="faint">
              hash <Text value={rule.hash} mono />
            </span>
          )}
          {rule.override !== undefined && (
            <span class="faint">
              override for <Text value={rule.override} mono />
            </span>
          )}
        </span>
      }
      actions={<Link href={hrefs.rule(rule.rule)}>Open rule</Link>}
    >
      {rule.note !== undefined && (
        <p class="soft small">
          Note: <Text value={rule.note} max={300} />.
        </p>
      )}
      {rule.limits.length === 0 ? (
        <p class="soft">No limit for this caller.</p>
      ) : (
        <ul class="why-limits">
          {rule.limits.map((limit) => (
            <Limit key={`${limit.name} ${String(limit.isCandidate)}`} limit={limit} />
          ))}
        </ul>
      )}
    </Card>
  )
}

/** When calls in flight end is not known. */
function resetText({ windowMs, resetAfterMs }: LimitExplanation): string {
  if (windowMs === 0) return resetAfterMs > 0 ? 'free as requests end' : 'none in flight'
  return resetAfterMs > 0 ? `full budget in ${waitText(resetAfterMs)}` : 'full budget'
}

function windowText({ calendar, windowMs }: LimitExplanation): string {
  return calendar ?? (windowMs === 0 ? 'in flight' : spanText(windowMs))
}

function Limit({ limit }: { readonly limit: LimitExplanation }) {
  const { remaining, limit: whole, ceiling } = limit
  const max = ceiling ?? whole
  const isExhausted = limit.retryAfterMs === null || limit.retryAfterMs > 0
  const share = max === 0 ? 0 : Math.min(1, Math.max(0, remaining / max))
  const tone = isExhausted ? (limit.isCandidate ? 'shadow' : 'refused') : 'allowed'
  return (
    <li class={`why-limit tone-${tone}`}>
      <div class="why-limit-head">
        <span>
          <Text value={limit.name} mono />{' '}
          <span class="faint small">
            <Text value={limit.algorithm} />, <Text value={windowText(limit)} />
          </span>{' '}
          {limit.isCandidate && <Badge tone="shadow">candidate</Badge>}
          {limit.posture !== undefined && (
            <Badge tone="degraded">
              fail <Text value={limit.posture} />
            </Badge>
          )}
        </span>
        <span class="nowrap">
          <b>{count(remaining)}</b> <span class="faint">of {count(max)} left</span>
          {ceiling !== undefined && (
            <span class="faint"> under the ceiling, {count(whole)} in all</span>
          )}
        </span>
      </div>
      <svg
        class="why-bar"
        viewBox="0 0 100 8"
        preserveAspectRatio="none"
        role="img"
        aria-label={`${percent(share)} left`}
      >
        <rect class="why-remaining" width={share * 100} height="8" />
      </svg>
      <p class="why-limit-foot small">
        <span class="why-verdict">
          <Sign tone={tone} /> {limitVerdict(limit)}
        </span>
        <span class="faint">cost {count(limit.amount)}</span>
        <span class="faint">{resetText(limit)}</span>
        <span class="faint">
          {limit.staleMs > 0 ? `read ${waitText(limit.staleMs)} ago` : 'read just now'}
        </span>
      </p>
      <details class="why-state small">
        <summary>Counter</summary>
        <Text value={stateText(limit.state)} max={600} mono />
      </details>
    </li>
  )
}

function UnmatchedRules({ rules }: { readonly rules: readonly RuleExplanation[] }) {
  const rest = rules.length - UNMATCHED_SHOWN_MAX
  return (
    <Card title="Non-matching rules" flush>
      <Table
        caption="Non-matching rules, with the reason"
        rows={rules.slice(0, UNMATCHED_SHOWN_MAX)}
        rowKey={({ rule }) => rule}
        columns={[
          {
            head: 'Rule',
            isMain: true,
            cell: ({ rule }) => (
              <Link href={hrefs.rule(rule)}>
                <Text value={rule} mono />
              </Link>
            ),
          },
          { head: 'Reason', cell: ({ why }) => <Text value={why ?? ''} max={300} /> },
        ]}
      />
      {rest > 0 && <p class="why-rest faint small">and {count(rest)} more</p>}
    </Card>
  )
}
