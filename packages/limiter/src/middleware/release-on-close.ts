/** Tells when a call in flight has ended, by what its adapter can watch. */
import type { HeldClient } from '../held-calls.js'
import type { AdmittedRequest } from './request-limiter.js'

type Admitted = Pick<AdmittedRequest, 'release'>

/**
 * Gives back the places of an admitted request when its response or its socket is closed, or its
 * client leaves.
 */
export function releaseOnClose({ release }: Admitted, client: HeldClient): void {
  if (release === undefined) return
  // What is closed already emits no event any more.
  if (client.destroyed) release()
  else client.once('close', release)
}

/**
 * Returns the Fetch response to an admitted request, whose call has ended when the body of the
 * response was read to its end or is given up. A response whose end cannot be seen, such as the
 * switch to a WebSocket, ends the call at once.
 */
export function releaseAfter(response: Response, { release }: Admitted): Response {
  if (release === undefined) return response
  const { body } = response
  try {
    if (body !== null) return new Response(watchEnd(body, release), response)
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
