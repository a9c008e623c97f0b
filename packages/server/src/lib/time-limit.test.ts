import { once } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { withTimeLimit } from './time-limit.js'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

async function untilAborted(signal: AbortSignal): Promise<unknown> {
  await once(signal, 'abort')
  return signal.reason
}

test('work that does not end is aborted at its limit, also when garbage is collected meanwhile', async () => {
  const { signal: parent } = new AbortController()
  const under = Array.from({ length: 8 }, () =>
    withTimeLimit({ timeoutMs: 20, parent }, untilAborted),
  )
  collectGarbage()
  setImmediate(collectGarbage)
  for (const reason of await Promise.all(under))
    expect(reason).toMatchObject({ name: 'TimeoutError' })
})

test('work is aborted with the reason of its parent, before and while it runs', async () => {
  const parent = new AbortController()
  const limit = { timeoutMs: 60_000, parent: parent.signal }
  const running = withTimeLimit(limit, untilAborted)
  parent.abort('stopping')
  expect(await running).toBe('stopping')
  await expect(withTimeLimit(limit, untilAborted)).rejects.toBe('stopping')
})

test('work that ends in time leaves no timer and no listener behind', async () => {
  const { signal: parent } = new AbortController()
  let received: AbortSignal | undefined
  const result = await withTimeLimit({ timeoutMs: 5, parent }, async (signal) => {
    received = signal
    return await Promise.resolve('done')
  })
  await new Promise((resolve) => void setTimeout(resolve, 20))
  expect({ result, aborted: received?.aborted }).toEqual({ result: 'done', aborted: false })
})
