/** Somebody else was faster: who, what they changed, and how to go on. */
import { api, useResource } from '../../api.js'
import { Button, ErrorNote, Loading, Row, Text, RelativeTime } from '../../ui/index.js'
import { LineDiff } from './diff-view.js'
import type { RuleText } from './rule-editor.js'
import { writeRule } from './yaml.js'

interface ConflictProps {
  readonly id: string
  readonly base: RuleText
  readonly ownText: string
  /** Theirs in place of one's own. */
  readonly onDiscard: (theirs: RuleText) => void
  /** One's own on top of theirs. */
  readonly onKeep: (theirs: RuleText) => void
}

export function Conflict({ id, base, ownText, onDiscard: onReload, onKeep }: ConflictProps) {
  const loaded = useResource(
    async () => ({
      rule: await api.getRule(id),
      last: (await api.listRuleVersions(id, { limit: 1 })).versions[0],
    }),
    [id, base.version],
  )
  if (loaded.error !== undefined) return <ErrorNote error={loaded.error} onRetry={loaded.reload} />
  if (loaded.value === undefined) return <Loading what="Reading what changed" />
  const { rule, last } = loaded.value
  const theirs: RuleText = { text: writeRule(rule), version: rule.version }
  return (
    <div class="note tone-degraded conflict" role="alert">
      <div class="note-body">
        <p class="note-title">
          {last === undefined ? 'Somebody' : <Text value={last.by} max={60} />} was faster
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
          Nothing of yours was saved, and nothing is lost.
        </p>
        <div class="conflict-diffs">
          <div>
            <h3>What they changed</h3>
            <LineDiff label="What they changed" before={base.text} after={theirs.text} />
          </div>
          <div>
            <h3>Yours beside theirs</h3>
            <LineDiff label="Yours beside theirs" before={theirs.text} after={ownText} />
          </div>
        </div>
        <Row>
          <Button onClick={() => onReload(theirs)}>Take theirs</Button>
          <Button onClick={() => onKeep(theirs)}>Go on with mine, over theirs</Button>
        </Row>
      </div>
    </div>
  )
}
