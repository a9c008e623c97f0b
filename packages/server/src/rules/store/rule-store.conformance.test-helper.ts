/**
 * The suite that every rule store passes. In a test file of the store:
 *
 *     describeRuleStore('postgres', async () => {
 *       const database = await newDatabase()
 *       return { store: await open(database), close: () => drop(database), ... }
 *     })
 *
 * `open` returns a new, unused store; every case gets its own and ends with `close()`.
 * `connect`, `reopen`, `advance` and `outgrow` are optional: cases that need an absent one are not
 * registered.
 */
import { describe } from 'vitest'
import { commitClaims } from './conformance-commits.test-helper.js'
import { historyClaims } from './conformance-history.test-helper.js'
import type { StoreUnderTest, WithStore } from './conformance-kit.test-helper.js'
import { nodeClaims } from './conformance-nodes.test-helper.js'
import { readClaims } from './conformance-reads.test-helper.js'
import { retentionClaims } from './conformance-retention.test-helper.js'
import { textClaims } from './conformance-texts.test-helper.js'

export type { StoreUnderTest } from './conformance-kit.test-helper.js'

export interface Abilities {
  /** Whether several handles on one store are possible. */
  readonly connect: boolean
  readonly reopen: boolean
  readonly advance: boolean
  /** Whether the store drops old versions. */
  readonly outgrow: boolean
}

export function describeRuleStore(
  name: string,
  open: () => Promise<StoreUnderTest>,
  abilities: Partial<Abilities> = {},
): void {
  const withStore: WithStore = (run) => async () => {
    const opened = await open()
    try {
      await run(opened)
    } finally {
      await opened.close()
    }
  }
  const can = { connect: true, reopen: true, advance: true, outgrow: false, ...abilities }
  describe(`rule store: ${name}`, () => {
    commitClaims(withStore, can)
    readClaims(withStore)
    historyClaims(withStore)
    retentionClaims(withStore, can)
    textClaims(withStore, can)
    nodeClaims(withStore, can)
  })
}
