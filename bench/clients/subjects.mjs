/**
 * The clients that are compared. Each entry creates one client: a function that makes a call and
 * resolves when it has its answer, whatever that is.
 */
import got from 'got'
import ky from 'ky'
import { createPacedFetch } from '../../packages/client/dist/index.js'

/** A refused call is sent again until the time is over, or it would wait for too long. */
const RETRIES = 1000
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

async function drain(response) {
  await response.arrayBuffer()
  return response.status
}

export const subjects = {
  'Sluice paced fetch': () => {
    const pacedFetch = createPacedFetch(fetch)
    return async (url, signal) => drain(await pacedFetch(url, { signal }))
  },
  'fetch, retry at once': () => async (url, signal) => {
    let status = 0
    for (let i = 0; i <= RETRIES && status !== 200 && !signal.aborted; i++) {
      status = await drain(await fetch(url, { signal }))
    }
    return status
  },
  'fetch, Retry-After': () => async (url, signal) => {
    for (let i = 0; i <= RETRIES && !signal.aborted; i++) {
      const response = await fetch(url, { signal })
      const status = await drain(response)
      if (status !== 429) return status
      await sleep(1000 * Number(response.headers.get('retry-after')))
    }
    return 429
  },
  ky: () => {
    const client = ky.create({ throwHttpErrors: false, timeout: false })
    return async (url, signal) => drain(await client.get(url, { signal }))
  },
  got: () => {
    const client = got.extend({ throwHttpErrors: false })
    return async (url, signal) => (await client.get(url, { signal })).statusCode
  },
}
