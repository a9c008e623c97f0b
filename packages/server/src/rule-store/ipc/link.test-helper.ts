/** Two ends of a channel in one process, over which everything goes as JSON, as between two. */
import type { Link, RulesMessage } from './messages.js'

export function linkPair(): { readonly near: Link; readonly far: Link } {
  const near = new Set<(message: RulesMessage) => void>()
  const far = new Set<(message: RulesMessage) => void>()
  return { near: endOf(near, far), far: endOf(far, near) }
}

function endOf(
  own: Set<(message: RulesMessage) => void>,
  other: ReadonlySet<(message: RulesMessage) => void>,
): Link {
  return {
    send(message) {
      const text = JSON.stringify(message)
      setImmediate(() => {
        for (const listener of other) listener(JSON.parse(text) as RulesMessage)
      })
    },
    onMessage(listener) {
      own.add(listener)
      return () => void own.delete(listener)
    },
  }
}
