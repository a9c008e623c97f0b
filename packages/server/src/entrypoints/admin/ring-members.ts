/** The members of the ring, as the nodes page shows them. */
import type { RingMemberView } from '@sluice/api'
import type { CounterStore } from '../../counter-store/open-store.js'

export function ringMembersOf({
  ring,
  store,
}: Pick<CounterStore, 'ring' | 'store'>): readonly RingMemberView[] {
  const stats = ring?.()
  const nodes = store.health?.().remote?.nodes ?? []
  const answering = new Set(nodes.filter((node) => node.isAnswering).map(({ address }) => address))
  return (stats?.members ?? []).map(({ name, partitions }) => ({
    member: name,
    isAnswering: answering.has(name),
    partitions,
    differsForMs: stats?.differing.get(name) ?? null,
  }))
}
