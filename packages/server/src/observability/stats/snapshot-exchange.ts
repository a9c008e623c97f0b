/**
 * Where nodes leave what they saw for each other: on the Redis that they share. Nothing of it
 * decides a call; a board that is gone leaves each node with its own sight.
 */

export interface SnapshotExchange {
  /** Replaces what this node left before; it is gone some seconds after the last time. */
  post(text: string): Promise<void>
  /** What the others left, and this one. Rejects if nobody can tell. */
  read(): Promise<readonly string[]>
  /** Nobody else sees it: there is no need to post. */
  readonly isAlone?: boolean | undefined
}

/** How often a node posts. */
export const POST_EVERY_MS = 2000
/** Texts are at most so long; a node that saw more leaves rules out. */
export const POST_LENGTH_MAX = 512 * 1024

/** The board of a node that is alone. */
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
