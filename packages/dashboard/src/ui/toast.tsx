/** Short messages about what has just happened. */
import { signal } from '@preact/signals'
import { Sign } from './feedback.js'
import { Text } from './text.js'
import type { Tone } from './tone.js'

const VISIBLE_MS = 6000
const TOASTS_MAX = 4
const TEXT_MAX = 300

interface Toast {
  readonly id: number
  readonly text: string
  readonly tone: Tone
}

const toasts = signal<readonly Toast[]>([])
let lastId = 0

export function toast(text: string, tone: Tone = 'neutral'): void {
  const id = ++lastId
  toasts.value = [...toasts.value, { id, text, tone }].slice(-TOASTS_MAX)
  setTimeout(() => {
    toasts.value = toasts.value.filter((one) => one.id !== id)
  }, VISIBLE_MS)
}

/** Rendered once and never removed: screen readers only announce additions to a known region. */
export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, tone }) => (
        <p key={id} class={`toast tone-${tone}`}>
          <Sign tone={tone} />
          <Text value={text} max={TEXT_MAX} />
        </p>
      ))}
    </div>
  )
}
