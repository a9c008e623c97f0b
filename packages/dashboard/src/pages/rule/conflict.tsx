/** An edit conflict: who saved first, what they changed, and how to resolve it. */
import { api, useResource } from '../../api.js'
import { Button, ErrorNote, Loading, Row, Text, RelativeTime } from '../../ui/index.js'
import { LineDiff } from './diff-view.js'
import type { RuleText } from './rule-editor.js'
import { writeRuleYaml } from '@sluice/core/text'

interface ConflictProps {
  readonly id: string
  readonly base: RuleText
  readonly ownText: string
  /** Discards the user's text. */
  readonly onDiscard: (theirs: RuleText) => void
  /** Keeps the user's text, based on the new version. */
  readonly onKeep: (theirs: RuleText) => void
}

export function Conflict({ id, base, ownText, onDiscard, onKeep }: ConflictProps) {
  const loaded = useResource(
    async () => ({
      rule: await api.getRule(id),
      last: (await api.listRuleVersions(id, { limit: 1 })).versions[0],
    }),
    [id, base.version],
  )
  if (loaded.error !== undefined) return <ErrorNote error={loaded.error} onRetry={loaded.reload} />
  if (loaded.value === undefined) return <Loading what="Loading changes" />
  const { rule, last } = loaded.value
  const theirs: RuleText = { text: writeRuleYaml(rule), version: rule.version }
  return (
    <div class="note tone-degraded conflict" role="alert">
      <div class="note-body">
        <p class="note-title">
          {last === undefined ? 'Someone' : <Text value={last.by} max={60} />} saved first
        </p>
        <p>
          {last !== undefined && (
            <>
              Version {last.version}, <RelativeTime at={last.at} />
              {last.why !== null && (
                <>
                  : “<Text value={last.why} max={200} />”
                </>
              )}
              .{' '}
            </>
          )}
          Your changes were not saved, and are not lost.
        </p>
        <div class="conflict-diffs">
          <div>
            <h3>Their changes</h3>
            <LineDiff label="Their changes" before={base.text} after={theirs.text} />
          </div>
          <div>
            <h3>Your text compared with theirs</h3>
            <LineDiff label="Your text compared with theirs" before={theirs.text} after={ownText} />
          </div>
        </div>
        <Row>
          <Button onClick={() => onDiscard(theirs)}>Use theirs</Button>
          <Button onClick={() => onKeep(theirs)}>Keep mine</Button>
        </Row>
      </div>
    </div>
  )
}
