/**
 * Exchanges node snapshots through the shared Redis. Decisions never depend on it; without it each
 * node shows only its own statistics.
 */

export interface SnapshotExchange {
  /** Publishes the snapshot of this node; it expires some seconds after the last post. */
  post(text: string): Promise<void>
  /** Reads the snapshots of all nodes, including this one. Rejects if the exchange fails. */
  read(): Promise<readonly string[]>
  /** True if there are no other nodes, and posting is unnecessary. */
  readonly isAlone?: boolean | undefined
}

/** The interval at which a node posts. */
export const POST_EVERY_MS = 2000
/** The maximum length of a snapshot; larger ones leave out rules. */
export const POST_LENGTH_MAX = 512 * 1024

/** The exchange of a single node. */
export function singleNodeExchange(): SnapshotExchange {
  let own: string | undefined
  return {
    async post(text) {
      own = text
    },
    read: async () => (own === undefined ? [] : [own]),
    isAlone: true,
  }
}
