/**
 * Every change of rules, overrides, candidates, keys and tokens: computed from what this node
 * knows, checked as a whole, committed as one version, in force here when the promise resolves.
 */
import type { WallClock } from '../../lib/wall-clock.js'
import { DivergedError } from '../store/rule-store.js'
import type { CallerOptions } from './override-callers.js'
import { toEditError, Commits, type CommitsDeps } from './commits.js'
import type { EditContext } from './edit-plan.js'
import type { Editor, Meta } from './editor-types.js'
import { candidateEdits } from './candidate-edits.js'
import { keyEdits } from './key-edits.js'
import { overrideEdits } from './override-edits.js'
import { rollbackEdits } from './rollback-edits.js'
import { ruleChecks } from './rule-checks.js'
import { ruleEdits } from './rule-edits.js'
import { setEdits } from './set-edits.js'
import { shadowEdits } from './shadow-edits.js'
import { tokenEdits } from './token-edits.js'

export type * from './editor-types.js'
export { EditError } from './editor-types.js'

export interface EditorOptions extends CommitsDeps, CallerOptions {
  readonly clock: WallClock
}

export function createEditor(options: EditorOptions): Editor {
  const { follower, clock, hideSecrets, ipv6Prefix, fromHeaders } = options
  const commits = new Commits(options)
  const context: EditContext = { commits, callers: { hideSecrets, ipv6Prefix, fromHeaders }, clock }
  return {
    readOnly: commits.readOnly,
    ...ruleEdits(context),
    ...ruleChecks(context, follower),
    ...candidateEdits(context),
    ...overrideEdits(context),
    ...setEdits(context, follower),
    ...rollbackEdits(context),
    ...shadowEdits(context),
    ...keyEdits(context),
    ...tokenEdits(context),
    adopt: (meta) => adopt(commits, options, meta),
  }
}

/** Only of a store that went back or is another: one that is followed already stays as it is. */
async function adopt(
  commits: Commits,
  { follower, log }: EditorOptions,
  { by, why }: Meta,
): Promise<number> {
  const { store } = commits
  return commits.inTurn(async () => {
    const known = follower.catalog.position?.version ?? 0
    try {
      await follower.refresh(0)
      return follower.catalog.position?.version ?? known
    } catch (error) {
      if (!(error instanceof DivergedError)) throw toEditError(error)
      const above = Math.max(known, error.store.version)
      const { version } = await store.adopt(above, by, why).catch((failure: unknown) => {
        throw toEditError(failure)
      })
      log.warn({ version, by, why, store: store.name }, 'the rule store was adopted as it is')
      await commits.refresh(version)
      return version
    }
  })
}
