/** The members of a ring, as the list that an operator or the first process keeps names them. */

export interface Member {
  /** The name by which partitions are given out: the same after a restart. */
  readonly name: string
  readonly address: PeerAddress
}

/** Where a member is reached. */
export type PeerAddress =
  | { readonly path: string }
  | { readonly host: string; readonly port: number }

/** Who is in the ring now. Nobody but this list says that a member has gone. */
export interface MemberList {
  /** The members now, this one included once it has joined. */
  members(): readonly Member[]
  /** Calls the listener after every change. */
  onChange(listener: () => void): void
  /** Adds this member; called when it can be asked. */
  join(): void
  /**
   * Removes this member, so that it can hand its counters over. Resolves when the others are known
   * that stay; none, if all leave together.
   */
  leave(): Promise<void>
  /** Another member says of itself that it can be asked, or that it goes. */
  onAnnounced?(name: string, news: MemberNews): void
}

/** What a member says of itself, ahead of the list. */
export type MemberNews = 'here' | 'gone'
