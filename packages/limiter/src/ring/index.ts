/** `@sluice/limiter/ring`: counters in the memory of several processes, each owning a part. */
export type { Member, MemberList, MemberNews, PeerAddress } from './members.js'
export { OwnerTable } from './owner-table.js'
export { type OpenPeer, peerSockets, type PeerTls } from './peer-socket.js'
export type { RingOptions, RingStats } from './ring-session.js'
export { type RingStore, type RingStoreOptions, ringStore } from './ring-store.js'
