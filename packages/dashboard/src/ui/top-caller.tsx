/** A caller in a list of top callers, with its most recently refused request. */
import type { TopCallerView } from '@sluice/client'
import type { Column } from './table.js'
import { Caller, Text } from './text.js'

const CALL_LENGTH_MAX = 100

/** Whether only the hash is known: other nodes saw the caller and may not share its name. */
export function isHashOnly({ caller, isEverybody }: TopCallerView): boolean {
  return isEverybody === false && Object.keys(caller).length === 0
}

export function TopCaller({ row }: { readonly row: TopCallerView }) {
  const { caller, plan, hash, lastRefusedCall } = row
  return (
    <div class="stacked-cell">
      <Caller attributes={caller} plan={plan} hash={isHashOnly(row) ? hash : undefined} />
      {typeof lastRefusedCall === 'string' && (
        <span class="faint small" title="Most recently refused request">
          <Text value={lastRefusedCall} max={CALL_LENGTH_MAX} mono />
        </span>
      )}
    </div>
  )
}

/** The first column of tables of top callers. */
export const callerColumn: Column<TopCallerView> = {
  head: 'Caller',
  isMain: true,
  cell: (row) => <TopCaller row={row} />,
}
