/** A caller of a list of top callers: who it is, and the call of it that was refused last. */
import type { TopCallerView } from '@sluice/client'
import { Caller, Text } from './text.js'

const CALL_LENGTH_MAX = 100

/** Known by its hash alone: other nodes met it, and may not tell its name. */
export function isHashOnly({ caller, isEverybody }: TopCallerView): boolean {
  return isEverybody === false && Object.keys(caller).length === 0
}

export function TopCaller({ row }: { readonly row: TopCallerView }) {
  const { caller, plan, hash, lastRefusedCall } = row
  return (
    <div class="stacked-cell">
      <Caller attributes={caller} plan={plan} hash={isHashOnly(row) ? hash : undefined} />
      {typeof lastRefusedCall === 'string' && (
        <span class="faint small" title="The call that was refused last">
          <Text value={lastRefusedCall} max={CALL_LENGTH_MAX} mono />
        </span>
      )}
    </div>
  )
}
