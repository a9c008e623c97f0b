import { describe, expect, test } from 'vitest'
import { POST_LENGTH_MAX } from './board.js'
import { type BoardMessage, SharedBoard, workerBoard } from './worker-board.js'

/** Workers and the first process, with messages that arrive at once. */
function setUp() {
  let nowMs = 0
  const shared = new SharedBoard(() => nowMs)
  const workerOf = (id: number) => {
    const board = workerBoard((message) => {
      const sent = JSON.parse(JSON.stringify(message)) as BoardMessage
      shared.hear(id, sent, (answer) => board.hear(answer))
      return true
    })
    return board
  }
  const pass = (ms: number) => void (nowMs += ms)
  return { shared, workerOf, pass }
}

describe('a board of workers', () => {
  test('shows each what all left last', async () => {
    const { workerOf } = setUp()
    const [one, two] = [workerOf(1), workerOf(2)]
    expect(await one.read()).toEqual([])
    await one.post('old')
    await one.post('of one')
    await two.post('of two')
    expect(await one.read()).toEqual(['of one', 'of two'])
    expect(await two.read()).toEqual(['of one', 'of two'])
  })

  test('forgets a worker that ended, and what is older than 15 seconds', async () => {
    const { shared, workerOf, pass } = setUp()
    const [one, two, three] = [workerOf(1), workerOf(2), workerOf(3)]
    await one.post('of one')
    await two.post('of two')
    shared.leave(2)
    pass(15_000)
    await three.post('of three')
    expect(await one.read()).toEqual(['of one', 'of three'])
    pass(1)
    expect(await one.read()).toEqual(['of three'])
  })

  test('takes no text that is longer than any sight', async () => {
    const { workerOf } = setUp()
    const one = workerOf(1)
    await one.post('x'.repeat(POST_LENGTH_MAX + 1))
    expect(await one.read()).toEqual([])
  })

  test('rejects where the first process does not listen', async () => {
    const board = workerBoard(() => false)
    await expect(board.post('text')).rejects.toThrow('does not listen')
    await expect(board.read()).rejects.toThrow('does not listen')
  })

  test('does not wait for ever, nor for more answers than somebody may want', async () => {
    const board = workerBoard(() => true)
    const reads = Array.from({ length: 17 }, () => board.read())
    const results = await Promise.allSettled(reads)
    const reasons = results.map((result) => result.status === 'rejected' && String(result.reason))
    expect(reasons[0]).toContain('did not answer within 1000 ms')
    expect(reasons[16]).toContain('16 have asked and wait')
    board.hear({ sluice: 'board-texts', id: 1, texts: [] })
  })
})
