/** Two ends of a channel in one process; messages are JSON, as between two processes. */
import type { IpcChannel, RulesMessage } from './ipc-messages.js'

export function channelPair(): { readonly near: IpcChannel; readonly far: IpcChannel } {
  const near = new Set<(message: RulesMessage) => void>()
  const far = new Set<(message: RulesMessage) => void>()
  return { near: endOf(near, far), far: endOf(far, near) }
}

function endOf(
  own: Set<(message: RulesMessage) => void>,
  other: ReadonlySet<(message: RulesMessage) => void>,
): IpcChannel {
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
