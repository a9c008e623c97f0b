/**
 * Which member of a ring owns each partition. For every partition the members are ranked by a hash
 * of both (rendezvous hashing): the first is the owner, the second the deputy, which is asked while
 * the owner is silent. If a member leaves, only its own partitions move, each to its deputy; if one
 * joins, it takes over only what it is first for.
 */
import { formatHash, hashTexts, PARTITIONS, type SipKey } from '@sluice/core'

/** Not secret: every member must rank alike. */
const RANKING: SipKey = { k0: 0x736c7569, k1: 0x63652d72, k2: 0x696e672d, k3: 0x72616e6b }
const NONE = -1

/** The owners for one list of members. It never changes. */
export class OwnerTable {
  /** The names of the members, sorted, so that all members number them alike. */
  readonly members: readonly string[]
  readonly #owners = new Int32Array(PARTITIONS)
  readonly #deputies = new Int32Array(PARTITIONS)

  constructor(members: Iterable<string>) {
    this.members = [...new Set(members)].toSorted()
    for (let partition = 0; partition < PARTITIONS; partition++) this.rank(partition)
  }

  /** The index of the owner in `members`; -1 if there are none. */
  ownerOf(partition: number): number {
    return this.#owners[partition] ?? NONE
  }

  /** The index of the member that is asked while the owner is silent; -1 if there is none. */
  deputyOf(partition: number): number {
    return this.#deputies[partition] ?? NONE
  }

  /** Equal for members that have the same list. */
  get view(): string {
    return formatHash(hashTexts(RANKING, this.members))
  }

  /** How many partitions each member owns, in the order of `members`. */
  shares(): readonly number[] {
    const shares = this.members.map(() => 0)
    for (const owner of this.#owners) if (owner !== NONE) shares[owner] = (shares[owner] ?? 0) + 1
    return shares
  }

  private rank(partition: number): void {
    let [owner, deputy, best, second] = [NONE, NONE, -1, -1]
    for (const [index, member] of this.members.entries()) {
      const { hi, lo } = hashTexts(RANKING, [member, String(partition)])
      const score = (hi >>> 0) * 2 ** 20 + (lo >>> 12)
      if (score > best) {
        ;[deputy, second] = [owner, best]
        ;[owner, best] = [index, score]
      } else if (score > second) {
        ;[deputy, second] = [index, score]
      }
    }
    this.#owners[partition] = owner
    this.#deputies[partition] = deputy
  }
}
