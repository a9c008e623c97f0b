/** Notices that the client at the other end of a socket has left; needs no module of Node. */

/** The part of Node's socket that is used. */
export interface PeerSocket {
  readonly remoteAddress?: string | undefined
  readonly localAddress?: string | undefined
  readonly destroyed?: boolean | undefined
  destroy?(): unknown
}

/**
 * Returns whether the client of a socket has left, and destroys the socket then.
 *
 * A connection that was reset has no peer any more, even before Node reads the reset and destroys
 * the socket; it still has a local address. A Unix domain socket never has either of them.
 */
export function endIfGone(socket: PeerSocket | null | undefined): boolean {
  if (socket === null || socket === undefined || socket.remoteAddress !== undefined) return false
  if (socket.destroyed !== true && socket.localAddress === undefined) return false
  socket.destroy?.()
  return true
}
