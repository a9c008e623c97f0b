/** Every alert links to a section of the runbook that describes what to do. */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { ALERT_NAMES } from './alert-kinds.js'
import { ALERT_KINDS } from './alert-kinds.js'

const DOC = readFileSync(new URL('../../../../../docs/guides/runbook.md', import.meta.url), 'utf8')
const SYMPTOMS = [
  'Callers get 502, 503 or 504',
  'Legitimate callers are refused',
  'More is admitted than the limit',
  'Redis memory grows',
  'The limiter adds 50 ms',
  'Limits are evaded by rotating addresses',
  'Refusals on some nodes only',
]

const sectionOf = (heading: string) =>
  DOC.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? undefined

describe('the runbook section of', () => {
  test.each([...ALERT_NAMES])('%s states the severity', (name) => {
    const { severity } = ALERT_KINDS[name]
    const said = severity === 'page' ? 'Page.' : 'Ticket.'
    expect(sectionOf(name)?.trimStart().startsWith(said)).toBe(true)
  })

  test.each([...ALERT_NAMES, ...SYMPTOMS])(
    '%s has causes, commands, changes and an end',
    (name) => {
      const section = sectionOf(name) ?? ''
      expect(section).toContain('\nCauses: ')
      expect(section).toContain('\nChange')
      expect(section).toContain('\nOver: ')
      expect(section).toContain('```sh\n')
      expect(section).toMatch(/^(sluice|metrics|admin) /m)
      expect(section).toMatch(/\bredis(-cli)? |Redis has no part in it/)
    },
  )
})
