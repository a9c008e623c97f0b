import { describe, expect, test } from 'vitest'
import { parseConfig } from './parse-config.js'

function parse(text: string) {
  const file = '/etc/sluice/sluice.yaml'
  const { config, errors } = parseConfig(text, { file, env: {}, readFile: () => '' })
  return { decisionLog: config?.decisionLog, messages: errors.map(({ message }) => message) }
}

describe('the decision log', () => {
  test('is off by default', () => {
    expect(parse('')).toEqual({ decisionLog: undefined, messages: [] })
  })

  test('needs only the name of its file, relative to the configuration', () => {
    expect(parse('decisionLog: { file: decisions.log }').decisionLog).toEqual({
      file: '/etc/sluice/decisions.log',
      sample: 0.01,
      maxBytes: 67_108_864,
      keep: 5,
    })
    expect(
      parse('decisionLog: { file: /var/log/d, sample: 1, maxBytes: 65536, keep: 1 }').decisionLog,
    ).toEqual({ file: '/var/log/d', sample: 1, maxBytes: 65_536, keep: 1 })
  })

  test('is refused without a file, because its settings imply that decisions are logged', () => {
    expect(parse('decisionLog: {}').messages).toEqual([
      '/etc/sluice/sluice.yaml:1:14: decisionLog.file: missing. Accepted: the name of the file that decisions are written to; to write none, leave decisionLog out',
    ])
  })

  test.each(['0', '1.01', '-0.5', '.nan', '1e-9'])('is refused with a share of %s', (sample) => {
    expect(parse(`decisionLog: { file: d, sample: ${sample} }`).messages).toHaveLength(1)
  })
})
