/** Several nodes change the same rules. */
import { AdminError } from '@sluice/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../tools/postgres/server.js'
import { stopAll } from '../process.test-helper.js'
import { limitOf, liveRule, type Node, startNodes } from './rule-nodes.test-helper.js'

const ROUNDS = 50

let postgres: PostgresServer
let nodes: readonly Node[]

beforeAll(async () => {
  postgres = await startPostgres()
  nodes = await startNodes(2, { SLUICE_DATABASE_URL: await postgres.createDatabase() })
})

afterAll(async () => {
  await stopAll()
  await postgres.stop()
})

describe('two writers on two nodes', () => {
  test(`conflict if both read the same version: one wins and the other is refused, ${ROUNDS} times`, async () => {
    let { version } = await (nodes[0] as Node).client.createRule(liveRule(1))
    const wins = nodes.map(() => 0)
    for (let round = 1; round <= ROUNDS; round++) {
      const written = await Promise.allSettled(
        nodes.map(({ client }, writer) =>
          client.patchRule('live', { limits: limitOf(2 * round + writer) }, { ifMatch: version }),
        ),
      )
      const winner = written.findIndex(({ status }) => status === 'fulfilled')
      const won = written[winner]
      const lost = written[1 - winner]
      if (won?.status !== 'fulfilled' || lost?.status !== 'rejected') {
        throw new Error(`round ${round}: ${JSON.stringify(written)}`)
      }
      expect(won.value.limits).toEqual(limitOf(2 * round + winner))
      expect(won.value.version).toBe(version + 1)
      expect(lost.reason).toBeInstanceOf(AdminError)
      expect(lost.reason).toMatchObject({
        status: 409,
        code: 'version_conflict',
        version: won.value.version,
      })
      wins[winner] = (wins[winner] ?? 0) + 1
      version = won.value.version
      // The loser has read the new version by now and can continue from there.
      const read = await nodes[1 - winner]?.client.getRule('live')
      expect(read).toMatchObject({ version, limits: limitOf(2 * round + winner) })
    }
    console.log(`${ROUNDS} rounds, won by ${wins.join(' and ')}`)
  })

  test('both win, one after the other, if they name no version', async () => {
    const written = await Promise.all(
      nodes.flatMap(({ client }, writer) =>
        Array.from({ length: 10 }, (_, n) =>
          client.createRule({ ...liveRule(1), id: `rule-${writer}-${n}` }),
        ),
      ),
    )
    expect(new Set(written.map(({ version }) => version)).size).toBe(20)
    const rules = async ({ client }: Node) => (await client.listRules()).rules.map(({ id }) => id)
    await expect
      .poll(async () => new Set(await rules(nodes[0] as Node)).size, { timeout: 20_000 })
      .toBe(21)
    await expect
      .poll(() => rules(nodes[1] as Node), { timeout: 20_000 })
      .toEqual(await rules(nodes[0] as Node))
  })
})
