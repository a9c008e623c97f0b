/** Versions of a rule: who changed what, when and why, and the way back. */
import type { VersionView } from '@sluice/client'
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { api, useLoaded } from '../../api.js'
import { rulesVersion } from '../../live.js'
import { Button, Empty, ErrorNote, Loading, Stack, Text, toast, When } from '../../ui/index.js'
import type { Editing } from '../rules/use-rules.js'
import { ChangeDialog } from './change-dialog.js'
import { DiffView, LineDiff } from './diff-view.js'
import { textsOf, whatOf } from './history.js'

const PAGE_LENGTH = 20
const SHOWN_MAX = 200

interface HistoryTabProps {
  readonly id: string
  readonly editing: Editing
  readonly empty?: ComponentChildren
}

export function HistoryTab({ id, editing, empty }: HistoryTabProps) {
  const [limit, setLimit] = useState(PAGE_LENGTH)
  const page = useLoaded(() => api.listRuleVersions(id, { limit }), [id, limit, rulesVersion.value])
  const [target, setTarget] = useState<VersionView>()
  if (page.value === undefined) {
    if (page.error === undefined) return <Loading what="Reading history" />
    return <>{empty ?? <ErrorNote error={page.error} onRetry={page.reload} />}</>
  }
  const { versions, next } = page.value
  if (versions.length === 0) {
    return <>{empty ?? <Empty title="No history">A rules file keeps no versions.</Empty>}</>
  }
  return (
    <Stack>
      <ol class="versions" aria-label={`Versions of ${id}, the newest first`}>
        {versions.map((version, index) => (
          <Version
            key={version.version}
            version={version}
            isNow={index === 0}
            canGoBack={editing.isAllowed && index > 0}
            onBack={() => setTarget(version)}
          />
        ))}
      </ol>
      {next !== null && limit < SHOWN_MAX && (
        <div>
          <Button size="small" onClick={() => setLimit(limit + PAGE_LENGTH)}>
            Show older ones
          </Button>
        </div>
      )}
      <Rollback id={id} target={target} onClose={() => setTarget(undefined)} />
    </Stack>
  )
}

interface VersionProps {
  readonly version: VersionView
  readonly isNow: boolean
  readonly canGoBack: boolean
  readonly onBack: () => void
}

function Version({ version, isNow, canGoBack, onBack }: VersionProps) {
  const [isOpen, setOpen] = useState(false)
  const { by, at, why } = version
  return (
    <li class="version">
      <span class="version-number">{version.version}</span>
      <span class="version-what">
        <span>
          <b>
            <Text value={by} max={60} />
          </b>{' '}
          {whatOf(version)}
          {isNow && <span class="faint"> (in force)</span>}
        </span>
        {why !== null && (
          <span class="soft">
            “<Text value={why} max={300} />”
          </span>
        )}
      </span>
      <span class="version-when faint small">
        <When at={at} />
      </span>
      <details class="version-more" onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          What changed<span class="unseen"> in version {version.version}</span>
        </summary>
        {isOpen &&
          textsOf(version).map(({ title, before, after }) => (
            <div key={title}>
              <h3>
                <Text value={title} max={200} />
              </h3>
              <LineDiff
                label={`Version ${version.version}: ${title}`}
                before={before}
                after={after}
              />
            </div>
          ))}
      </details>
      {canGoBack && (
        <Button size="small" kind="quiet" onClick={onBack}>
          Roll back to here<span class="unseen">, version {version.version}</span>
        </Button>
      )}
    </li>
  )
}

interface RollbackProps {
  readonly id: string
  readonly target: VersionView | undefined
  readonly onClose: () => void
}

/** First said what it would do. */
function Rollback({ id, target, onClose }: RollbackProps) {
  const version = target?.version
  const trial = useLoaded(
    async () =>
      version === undefined
        ? undefined
        : { of: version, diff: (await api.rollbackRule(id, version, { dryRun: true })).diff },
    [id, version, rulesVersion.value],
  )
  const applied = trial.value
  const isReady = applied?.of === version && !trial.isLoading && trial.error === undefined
  return (
    <ChangeDialog
      title={`Roll back ${id} to version ${version ?? ''}`}
      confirm="Roll back"
      isOpen={version !== undefined}
      isDisabled={!isReady || applied === undefined || applied.diff.rules.length === 0}
      onClose={onClose}
      run={async (why) => {
        if (version === undefined) return
        await api.rollbackRule(id, version, { why })
        toast(`${id} is as it was at version ${version}`, 'allowed')
      }}
    >
      <p>
        The rule, its candidate and its overrides become what they were, as a new version. This is
        what changes:
      </p>
      {trial.error !== undefined && <ErrorNote error={trial.error} />}
      {isReady && applied !== undefined ? (
        <DiffView diff={applied.diff} />
      ) : (
        trial.error === undefined && <Loading what="Trying" />
      )}
    </ChangeDialog>
  )
}
