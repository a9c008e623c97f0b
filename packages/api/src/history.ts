/** Versions of the rule store, and the way back to one. */
import { z } from 'zod'
import { anyJson, type Input, strictObject, version, type View } from './schema.js'

export const historyChangeView = z
  .object({
    kind: z.enum(['set', 'rule', 'candidate', 'override', 'key', 'token', 'secret']),
    id: z.string(),
    before: anyJson.meta({ description: 'Null if it was created.' }),
    after: anyJson.meta({ description: 'Null if it was removed.' }),
  })
  .meta({ id: 'PastChange' })
export type HistoryChangeView = View<typeof historyChangeView>

export const versionView = z
  .object({
    version,
    at: z.string(),
    by: z.string(),
    why: z.string().nullable(),
    changeCount: z.int(),
    changes: z.array(historyChangeView).meta({ description: 'The first 100 changes.' }),
  })
  .meta({ id: 'Version' })
export type VersionView = View<typeof versionView>

export const versionsPage = z
  .object({
    versions: z.array(versionView),
    next: z
      .int()
      .nullable()
      .meta({ description: 'The `before` of the next page; null on the last page.' }),
    keptSince: z.int().nullable().meta({
      description: 'The oldest version that a rollback can reach; null if all versions are kept.',
    }),
  })
  .meta({ id: 'VersionsPage' })
export type VersionsPage = View<typeof versionsPage>

const ACCEPTED_VERSION = 'a version: a whole number from 1'

export const rollbackInput = strictObject({
  version: z.int(ACCEPTED_VERSION).min(1, ACCEPTED_VERSION),
}).meta({ id: 'Rollback', example: { version: 12 } })
export type RollbackInput = Input<typeof rollbackInput>
