/**
 * The members of a ring of nodes: those that DNS, a file or the configuration names. A node speaks
 * for itself alone: one that has started is a member before the list names it, and one that leaves
 * is none any more, each until the list confirms it or for half a minute.
 */
import type { Member, MemberList, MemberNews } from '@sluice/limiter/ring'
import { formatListen, parseListen } from '../config/listen.js'
import type { ListenAddress } from '../config/config.js'

/** What the list does not confirm within this time is dropped. */
const UNCONFIRMED_MS = 30_000
/** A list of more is cut: each member has a connection to each other. */
const MEMBERS_MAX = 1000

export interface PeerListOptions {
  /** As the list names this node. */
  readonly self: ListenAddress
  readonly nowMs: () => number
}

export class PeerList implements MemberList {
  readonly self: Member
  readonly #nowMs: () => number
  readonly #listeners: (() => void)[] = []
  #listed: readonly string[] = []
  /** Members that the list does not name and that say they are here. */
  readonly #here = new Map<string, Announcement>()
  /** Until when a member does not count that the list names, because it has left. */
  readonly #gone = new Map<string, number>()
  #members: readonly Member[] = []
  #isLeaving = false

  constructor({ self, nowMs }: PeerListOptions) {
    this.self = memberOf(self)
    this.#nowMs = nowMs
  }

  members(): readonly Member[] {
    return this.#members
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  join(): void {
    this.onAnnounced(this.self.name, 'here')
  }

  leave(): Promise<void> {
    this.#isLeaving = true
    this.refresh()
    return Promise.resolve()
  }

  onAnnounced(name: string, news: MemberNews): void {
    if (parseListen(name) === undefined) return
    const nowMs = this.#nowMs()
    if (news === 'here') {
      this.#gone.delete(name)
      this.recordHere(name, nowMs)
    } else {
      this.#here.delete(name)
      if (this.#listed.includes(name)) this.#gone.set(name, nowMs + UNCONFIRMED_MS)
    }
    this.refresh()
  }

  /** Takes the list as it is now. */
  update(listed: readonly ListenAddress[]): void {
    const before = this.#listed
    const nowMs = this.#nowMs()
    this.#listed = listed.slice(0, MEMBERS_MAX).map(formatListen)
    // One that was taken off the list goes on saying that it is here, which counts no longer.
    for (const name of before) {
      if (!this.#listed.includes(name)) this.#here.set(name, { untilMs: nowMs, heardMs: nowMs })
    }
    for (const name of this.#listed) this.#here.delete(name)
    for (const name of this.#gone.keys()) if (!this.#listed.includes(name)) this.#gone.delete(name)
    this.refresh()
  }

  /** Drops what was not confirmed in time; call it once a second. */
  refresh(): void {
    const nowMs = this.#nowMs()
    for (const [name, { heardMs }] of this.#here) {
      if (heardMs + UNCONFIRMED_MS <= nowMs) this.#here.delete(name)
    }
    for (const [name, untilMs] of this.#gone) if (untilMs <= nowMs) this.#gone.delete(name)
    const here = [...this.#here].flatMap(([name, { untilMs }]) => (untilMs > nowMs ? name : []))
    const names = new Set([...this.#listed, ...here])
    for (const name of this.#gone.keys()) names.delete(name)
    if (this.#isLeaving) names.delete(this.self.name)
    const sorted = [...names].toSorted()
    if (sorted.join() === this.#members.map(({ name }) => name).join()) return
    this.#members = sorted.flatMap((name) => {
      const address = parseListen(name)
      return address === undefined ? [] : memberOf(address)
    })
    for (const listener of this.#listeners) listener()
  }

  /** Only the first announcement counts, until the list confirms it or it is silent for a time. */
  private recordHere(name: string, nowMs: number): void {
    if (this.#listed.includes(name)) return
    const known = this.#here.get(name)
    if (known !== undefined) known.heardMs = nowMs
    else if (this.#here.size < MEMBERS_MAX) {
      this.#here.set(name, { untilMs: nowMs + UNCONFIRMED_MS, heardMs: nowMs })
    }
  }
}

interface Announcement {
  /** Until when it counts. */
  readonly untilMs: number
  heardMs: number
}

function memberOf(address: ListenAddress): Member {
  return { name: formatListen(address), address }
}
