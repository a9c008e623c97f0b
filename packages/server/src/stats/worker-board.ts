/**
 * The board of workers that share no Redis: the first process keeps what each left, and hands all
 * of it to whoever asks. All messages are JSON.
 */
import { monotonicMs } from '../clock.js'
import { type Board, POST_LENGTH_MAX } from './board.js'

export type BoardMessage =
  | { readonly sluice: 'board-post'; readonly text: string }
  | { readonly sluice: 'board-wanted'; readonly id: number }
  | { readonly sluice: 'board-texts'; readonly id: number; readonly texts: readonly string[] }

/** A worker that left nothing for longer hangs, and what it saw is old. */
const LIFE_MS = 15_000
/** More than a machine has cores, so more than there are workers. */
const WORKERS_MAX = 1024
const READ_MS_MAX = 1000
/** Nobody asks more often than once a second, and nothing waits for longer than that. */
const READS_MAX = 16

export function isBoardMessage(message: { readonly sluice: string }): message is BoardMessage {
  return message.sluice.startsWith('board-')
}

/** The side of the first process. */
export class SharedBoard {
  readonly #nowMs: () => number
  readonly #left = new Map<number, { readonly text: string; readonly atMs: number }>()

  /** `nowMs`: milliseconds by a clock that never steps. */
  constructor(nowMs: () => number = monotonicMs) {
    this.#nowMs = nowMs
  }

  hear(worker: number, message: BoardMessage, answer: (message: BoardMessage) => void): void {
    if (message.sluice === 'board-post') this.post(worker, message.text)
    if (message.sluice === 'board-wanted') {
      answer({ sluice: 'board-texts', id: message.id, texts: this.texts() })
    }
  }

  /** It has ended. */
  leave(worker: number): void {
    this.#left.delete(worker)
  }

  private post(worker: number, text: string): void {
    if (text.length > POST_LENGTH_MAX) return
    if (this.#left.size >= WORKERS_MAX && !this.#left.has(worker)) return
    this.#left.set(worker, { text, atMs: this.#nowMs() })
  }

  private texts(): readonly string[] {
    const untilMs = this.#nowMs() - LIFE_MS
    return [...this.#left.values()].flatMap(({ text, atMs }) => (atMs < untilMs ? [] : text))
  }
}

/** Sends to the first process; false: it is not there any more. */
export type SendToFirst = (message: BoardMessage) => boolean

export interface WorkerBoard extends Board {
  hear(message: BoardMessage): void
}

/** The side of a worker. */
export function workerBoard(send: SendToFirst): WorkerBoard {
  const waiting = new Map<number, (texts: readonly string[]) => void>()
  let asked = 0
  return {
    async post(text) {
      if (!send({ sluice: 'board-post', text })) throw new Error(GONE)
    },
    read: () =>
      new Promise((resolve, reject) => {
        const id = ++asked
        const end = () => {
          clearTimeout(timer)
          waiting.delete(id)
        }
        const fail = (reason: string) => {
          end()
          reject(new Error(reason))
        }
        const late = `the first process did not answer within ${READ_MS_MAX} ms`
        const timer = setTimeout(() => fail(late), READ_MS_MAX).unref()
        if (waiting.size >= READS_MAX) return fail(`${READS_MAX} have asked and wait`)
        waiting.set(id, (texts) => {
          end()
          resolve(texts)
        })
        if (!send({ sluice: 'board-wanted', id })) fail(GONE)
      }),
    hear(message) {
      if (message.sluice === 'board-texts') waiting.get(message.id)?.(message.texts)
    },
  }
}

const GONE = 'the first process, which holds the board, does not listen'
