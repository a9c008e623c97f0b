/** Safe display of untrusted text: caller names, paths, keys. No page renders it in another way. */
import type { Attributes } from '@sluice/client'
import type { ComponentChildren } from 'preact'
import { nowMs } from '../clock.js'
import { ago, dateTime, visibleText, timeOf } from '../format.js'
import { classes } from './tone.js'

const TITLE_LENGTH_MAX = 1000
/** Texts up to this length are not wrapped: they fit even on a phone. */
const UNBROKEN_MAX = 24
/** Attributes shown of one caller; rules count by a handful. */
const ATTRIBUTES_MAX = 12
/** Characters shown of each attribute value. */
const VALUE_MAX = 48

interface TextProps {
  readonly value: string
  readonly max?: number | undefined
  readonly mono?: boolean | undefined
}

/** Truncates the text, makes invisible characters visible and isolates its writing direction. */
export function Text({ value, max, mono = false }: TextProps) {
  const text = visibleText(value, max)
  const title = text === value ? undefined : visibleText(value, TITLE_LENGTH_MAX)
  return (
    <bdi
      class={classes('text', mono && 'mono', text.length <= UNBROKEN_MAX && 'nowrap')}
      title={title}
    >
      {text}
    </bdi>
  )
}

interface CallerProps {
  readonly attributes: Attributes
  readonly plan?: string | null | undefined
  /** Shown instead of attributes that are unknown. */
  readonly hash?: string | undefined
}

/** A caller as the attributes that the rule counts by. All callers together have no plan. */
export function Caller({ attributes, plan, hash }: CallerProps) {
  const pairs = Object.entries(attributes).slice(0, ATTRIBUTES_MAX)
  return (
    <span class="caller">
      {pairs.length === 0 && hash === undefined && <span class="caller-all">all callers</span>}
      {pairs.length === 0 && hash !== undefined && (
        <span class="caller-attribute" title="Only the hash of this caller is known">
          <span class="caller-name">hash</span>
          <Text value={hash} mono />
        </span>
      )}
      {pairs.map(([name, value]) => (
        <span class="caller-attribute" key={name}>
          <span class="caller-name">
            <Text value={name} max={40} />
          </span>
          <Text value={value} max={VALUE_MAX} mono />
        </span>
      ))}
      {pairs.length > 0 && plan !== undefined && plan !== null && (
        <span class="plan">
          <Text value={plan} max={30} /> plan
        </span>
      )}
    </span>
  )
}

interface RelativeTimeProps {
  readonly at: string | number
  /** Replaces the relative time. */
  readonly children?: ComponentChildren
}

/** A relative time such as `3 min ago`, with the full time as its title. */
export function RelativeTime({ at, children }: RelativeTimeProps) {
  const ms = timeOf(at)
  if (!Number.isFinite(ms)) return <span>–</span>
  return (
    <time dateTime={new Date(ms).toISOString()} title={dateTime(ms)}>
      {children ?? ago(ms, nowMs.value)}
    </time>
  )
}
