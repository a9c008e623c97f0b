/** The versions of a rule: who changed what, when and why, with rollback. */
import type { VersionView } from '@sluice/client'
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { api, useResource } from '../../api.js'
import { rulesVersion } from '../../live.js'
import {
  Button,
  Empty,
  ErrorNote,
  Loading,
  Stack,
  Text,
  toast,
  RelativeTime,
} from '../../ui/index.js'
import type { EditAccess } from '../rules/use-rules.js'
import { ChangeDialog } from './change-dialog.js'
import { DiffView, LineDiff } from './diff-view.js'
import { textChanges, versionSummary } from './history.js'

const PAGE_LENGTH = 20
const SHOWN_MAX = 200

interface HistoryTabProps {
  readonly id: string
  readonly access: EditAccess
  readonly empty?: ComponentChildren
}

export function HistoryTab({ id, access, empty }: HistoryTabProps) {
  const [limit, setLimit] = useState(PAGE_LENGTH)
  const page = useResource(
    () => api.listRuleVersions(id, { limit }),
    [id, limit, rulesVersion.value],
  )
  const [target, setTarget] = useState<VersionView>()
  if (page.value === undefined) {
    if (page.error === undefined) return <Loading what="Loading history" />
    return <>{empty ?? <ErrorNote error={page.error} onRetry={page.reload} />}</>
  }
  const { versions, next } = page.value
  if (versions.length === 0) {
    return <>{empty ?? <Empty title="No history">A rules file keeps no versions.</Empty>}</>
  }
  return (
    <Stack>
      <ol class="versions" aria-label={`Versions of ${id}, newest first`}>
        {versions.map((version, index) => (
          <Version
            key={version.version}
            version={version}
            isActive={index === 0}
            canRollBack={access.isAllowed && index > 0}
            onRollBack={() => setTarget(version)}
          />
        ))}
      </ol>
      {next !== null && limit < SHOWN_MAX && (
        <div>
          <Button size="small" onClick={() => setLimit(limit + PAGE_LENGTH)}>
            Show older versions
          </Button>
        </div>
      )}
      <RollbackDialog id={id} target={target} onClose={() => setTarget(undefined)} />
    </Stack>
  )
}

interface VersionProps {
  readonly version: VersionView
  readonly isActive: boolean
  readonly canRollBack: boolean
  readonly onRollBack: () => void
}

function Version({ version, isActive, canRollBack, onRollBack }: VersionProps) {
  const [isOpen, setOpen] = useState(false)
  const { by, at, why: reason } = version
  return (
    <li class="version">
      <span class="version-number">{version.version}</span>
      <span class="version-summary">
        <span>
          <b>
            <Text value={by} max={60} />
          </b>{' '}
          {versionSummary(version)}
          {isActive && <span class="faint"> (active)</span>}
        </span>
        {reason !== null && (
          <span class="soft">
            “<Text value={reason} max={300} />”
          </span>
        )}
      </span>
      <span class="version-time faint small">
        <RelativeTime at={at} />
      </span>
      <details class="version-more" onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          Changes<span class="visually-hidden"> in version {version.version}</span>
        </summary>
        {isOpen &&
          textChanges(version).map(({ title, before, after }) => (
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
      {canRollBack && (
        <Button size="small" kind="quiet" onClick={onRollBack}>
          Roll back<span class="visually-hidden"> to version {version.version}</span>
        </Button>
      )}
    </li>
  )
}

interface RollbackDialogProps {
  readonly id: string
  readonly target: VersionView | undefined
  readonly onClose: () => void
}

/** Shows the effect of a rollback before it is confirmed. */
function RollbackDialog({ id, target, onClose }: RollbackDialogProps) {
  const version = target?.version
  const preview = useResource(
    async () =>
      version === undefined
        ? undefined
        : { version, diff: (await api.rollbackRule(id, version, { dryRun: true })).diff },
    [id, version, rulesVersion.value],
  )
  const result = preview.value
  const isReady = result?.version === version && !preview.isLoading && preview.error === undefined
  return (
    <ChangeDialog
      title={`Roll back ${id} to version ${version ?? ''}`}
      confirm="Roll back"
      isOpen={version !== undefined}
      isDisabled={!isReady || result === undefined || result.diff.rules.length === 0}
      onClose={onClose}
      run={async (reason) => {
        if (version === undefined) return
        await api.rollbackRule(id, version, { why: reason })
        toast(`${id}: rolled back to version ${version}`, 'allowed')
      }}
    >
      <p>This restores the rule, its candidate and its overrides as a new version:</p>
      {preview.error !== undefined && <ErrorNote error={preview.error} />}
      {isReady && result !== undefined ? (
        <DiffView diff={result.diff} />
      ) : (
        preview.error === undefined && <Loading what="Loading changes" />
      )}
    </ChangeDialog>
  )
}
