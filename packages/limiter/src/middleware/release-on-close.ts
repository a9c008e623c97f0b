/** Tells when a call in flight has ended, by what its adapter can watch. */
import type { HeldClient } from '../held-calls.js'
import type { AdmittedRequest } from './request-limiter.js'

type Admitted = Pick<AdmittedRequest, 'release'>

/** A response of Node, or another client of a call. */
interface WatchedClient extends HeldClient {
  /** Of a response: null while it waits for those before it on its connection. */
  readonly socket?: unknown
  /** The request that a response of Node answers. */
  readonly req?: { readonly socket?: Partial<HeldClient> | undefined } | undefined
}

/**
 * Gives back the places of an admitted request when its response or its socket is closed, or its
 * client leaves.
 */
export function releaseOnClose({ release }: Admitted, client: WatchedClient): void {
  if (release === undefined) return
  // What is closed already emits no event any more.
  if (client.destroyed) return release()
  const connection = connectionOfWaiting(client)
  if (connection?.destroyed === true) return release()
  const end = () => {
    connection?.off?.('close', end)
    release()
  }
  client.once('close', end)
  connection?.once?.('close', end)
}

/**
 * The connection of a response that waits for those to earlier requests on it: such a response is
 * not told when its client leaves. Undefined for all others.
 */
function connectionOfWaiting({ socket, req }: WatchedClient): Partial<HeldClient> | undefined {
  return socket === null ? req?.socket : undefined
}

/**
 * Returns the Fetch response to an admitted request, whose call has ended when the body of the
 * response was read to its end or is given up. A response whose end cannot be seen ends the call at
 * once: the switch to a WebSocket, or the answer to HEAD, whose body nobody reads.
 */
export function releaseAfter(response: Response, { release }: Admitted, method: string): Response {
  if (release === undefined) return response
  const { body } = response
  try {
    if (body !== null && method !== 'HEAD') return new Response(watchEnd(body, release), response)
  } catch {
    // Its body was read already, or it is of a kind that cannot be made anew.
  }
  release()
  return response
}

/** Returns the same bytes, and calls `onEnd` when they have ended, failed or are given up. */
function watchEnd(body: ReadableStream<Uint8Array>, onEnd: () => void): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read()
        if (!done) return controller.enqueue(value)
        onEnd()
        controller.close()
      } catch (error) {
        onEnd()
        controller.error(error)
      }
    },
    cancel(reason) {
      onEnd()
      return reader.cancel(reason)
    },
  })
}
