/** The side that has the rule store: answers what workers ask of it, and passes news on. */
import type {
  Commit,
  HistoryQuery,
  KeysQuery,
  NodeReport,
  Position,
  RuleStore,
} from '../rule-store.js'
import { failureOf, type Hello, type Link, type Pulled, type RulesMessage } from './messages.js'

type Ask = Extract<RulesMessage, { readonly sluice: 'rules-ask' }>

/** A worker reads one thing at a time; what it left open is dropped beyond so many. */
const STREAMS_MAX = 8
const STATUS_EVERY_MS = 500
/** A message for each change of a long past would take longer than the changes. */
const CHANGES_AT_ONCE = 500

/** Serves one worker until what it returns is called. */
export function hostRuleStore(store: RuleStore, link: Link, isKeeper: boolean): () => void {
  const host = new Host(store, link, isKeeper)
  return () => host.close()
}

class Host {
  readonly #store: RuleStore
  readonly #link: Link
  readonly #isKeeper: boolean
  readonly #streams = new Map<number, Open>()
  readonly #enders: readonly (() => void)[]
  #streamCount = 0
  #told = ''

  constructor(store: RuleStore, link: Link, isKeeper: boolean) {
    this.#store = store
    this.#link = link
    this.#isKeeper = isKeeper
    const timer = setInterval(() => this.tellStatus(), STATUS_EVERY_MS)
    timer.unref()
    this.#enders = [
      link.onMessage((message) => {
        if (message.sluice === 'rules-ask') void this.answer(message)
      }),
      store.onNews(() => link.send({ sluice: 'rules-news', status: store.status() })),
      () => clearInterval(timer),
    ]
  }

  close(): void {
    for (const end of this.#enders) end()
    for (const { stream } of this.#streams.values()) void stream.return?.()
    this.#streams.clear()
  }

  private tellStatus(): void {
    const status = this.#store.status()
    const text = JSON.stringify(status)
    if (text === this.#told) return
    this.#told = text
    this.#link.send({ sluice: 'rules-status', status })
  }

  private async answer({ id, verb, args }: Ask): Promise<void> {
    try {
      const value = await this.ask(verb, args)
      this.#link.send({ sluice: 'rules-answer', id, value })
    } catch (error) {
      this.#link.send({ sluice: 'rules-failure', id, failure: failureOf(error) })
    }
  }

  private async ask(verb: Ask['verb'], args: readonly unknown[]): Promise<unknown> {
    const store = this.#store
    const [first, second, third] = args
    switch (verb) {
      case 'hello':
        return {
          name: store.name,
          status: store.status(),
          isKeeper: this.#isKeeper,
        } satisfies Hello
      case 'read':
        return this.open(store.read((first ?? undefined) as Position | undefined), 1)
      case 'changesAfter':
        return this.open(
          store.changesAfter(first as number, (second ?? undefined) as string | undefined),
          CHANGES_AT_ONCE,
        )
      case 'next':
        return this.next(first as number)
      case 'end':
        return this.end(first as number)
      case 'commit':
        return store.commit(first as Commit)
      case 'history':
        return store.history(first as HistoryQuery)
      case 'keys':
        return store.keys(first as KeysQuery)
      case 'key':
        return (await store.key(first as string)) ?? null
      case 'adopt':
        return store.adopt(first as number, second as string, (third ?? undefined) as string)
      case 'report':
        return store.report(first as NodeReport)
      case 'nodes':
        return store.nodes()
    }
  }

  private open(iterable: AsyncIterable<unknown>, atOnce: number): number {
    const id = ++this.#streamCount
    this.#streams.set(id, { stream: iterable[Symbol.asyncIterator](), atOnce })
    const [oldest] = this.#streams.keys()
    if (this.#streams.size > STREAMS_MAX && oldest !== undefined) void this.end(oldest)
    return id
  }

  private async next(id: number): Promise<Pulled> {
    const open = this.#streams.get(id)
    if (open === undefined) throw new Error('this reading was given up')
    const values: unknown[] = []
    try {
      while (values.length < open.atOnce) {
        const { done, value } = await open.stream.next()
        if (done === true) {
          this.#streams.delete(id)
          return { values, isDone: true }
        }
        values.push(value)
      }
      return { values, isDone: false }
    } catch (error) {
      this.#streams.delete(id)
      throw error
    }
  }

  private async end(id: number): Promise<void> {
    const open = this.#streams.get(id)
    this.#streams.delete(id)
    await open?.stream.return?.()
  }
}

interface Open {
  readonly stream: AsyncIterator<unknown>
  readonly atOnce: number
}
