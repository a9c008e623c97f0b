/** The reports that a real Envoy sent, as `interop/envoy.mjs` has recorded them. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { UsageReports } from '../quota/quota-messages.js'
import { decodeUsageReports } from './quota-codec.js'

interface Recorded {
  readonly says: string
  readonly bytes: string
  readonly report: UsageReports
}

const FILE = new URL(
  '../../../../../../conformance/envoy/recorded/quota-reports.json',
  import.meta.url,
)
const { reports } = JSON.parse(readFileSync(FILE, 'utf8')) as {
  readonly reports: readonly Recorded[]
}

test.each(reports)('the report of $says decodes to what the proxy did', ({ bytes, report }) => {
  expect(decodeUsageReports(Buffer.from(bytes, 'hex'))).toEqual(report)
})

test('pairs come in any order, and all reports name the same bucket', () => {
  const [first, ...others] = reports.map(({ report }) => report.usages[0]?.bucket)
  for (const bucket of others) expect(bucket).toEqual(first)
})
