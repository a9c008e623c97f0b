/** The board that most nodes see: of all that share a Redis, else of the workers of one server. */
import type { Store } from '@sluice/limiter'
import { type Board, ownBoard } from './board.js'
import { isRedis } from './store-sight.js'

export function openBoard(store: Store, worker: { readonly board: Board } | undefined): Board {
  if (isRedis(store)) return store.board
  return worker?.board ?? ownBoard()
}
