/** Checks the files for Prometheus and Grafana by promtool, the metrics and the runbook. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseData } from '../packages/core/src/index.js'
import { ALERT_NAMES } from '../packages/server/src/observability/alerts/alert-kinds.js'
import { findService } from './services.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const RULES = 'monitoring/prometheus-rules.yaml'
const RULES_TEST = 'monitoring/prometheus-rules.test.yaml'
const DASHBOARD = 'monitoring/grafana-dashboard.json'
const RUNBOOK = 'docs/guides/runbook.md'

const readText = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

function readYaml(path: string): unknown {
  const { value, problems } = parseData(readText(path), { file: path })
  expect(problems).toEqual([])
  return value
}

/** Throws with the output of promtool if it finds an error. */
function promtool(...args: readonly string[]): string {
  return execFileSync(findService('promtool'), args, { cwd: ROOT, encoding: 'utf8', stdio: 'pipe' })
}

interface Rule {
  readonly alert?: string
  readonly record?: string
  readonly expr: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

const { groups } = readYaml(RULES) as { groups: readonly { rules: readonly Rule[] }[] }
const rules = groups.flatMap((group) => group.rules)
const alerts = rules.flatMap((rule) =>
  rule.alert === undefined ? [] : ([[rule.alert, rule]] as const),
)

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly datasource?: unknown
  readonly gridPos: Readonly<Record<'x' | 'y' | 'w' | 'h', number>>
  readonly targets?: readonly { readonly expr: string; readonly datasource: unknown }[]
}

interface Dashboard {
  readonly uid: string
  readonly schemaVersion: number
  readonly panels: readonly Panel[]
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly definition?: string }[]
  }
  readonly annotations: {
    readonly list: readonly { readonly name: string; readonly expr: string }[]
  }
}

const dashboard = JSON.parse(readText(DASHBOARD)) as Dashboard
const drawn = dashboard.panels.filter(({ type }) => type !== 'row')

/** Every expression of the dashboard, with the title of its panel or annotation. */
const queries: readonly (readonly [place: string, expr: string])[] = [
  ...drawn.flatMap(({ title, targets }) =>
    (targets ?? []).map(({ expr }) => [title, expr] as const),
  ),
  ...dashboard.annotations.list.map(({ name, expr }) => [name, expr] as const),
]

/** Values that Grafana would substitute. */
function fillIn(expr: string): string {
  return expr.replaceAll('$__rate_interval', '1m').replaceAll(/\$(?:job|instance|rule)\b/g, '.*')
}

/** The labels of each metric, as the tables of the reference name them. */
const documented = new Map(
  [
    ...readText('docs/reference/metrics.md').matchAll(
      /^\| `(sluice_\w+)(?:\{([\w,]+)\})?` *\| (\w+) /gm,
    ),
  ].flatMap(([, name = '', labels = '', type = '']) => {
    const own = labels === '' ? [] : labels.split(',')
    const entry = (suffix: string, ...more: readonly string[]) =>
      [name + suffix, new Set([...own, ...more])] as const
    return type === 'histogram'
      ? [entry('_bucket', 'le'), entry('_sum'), entry('_count')]
      : [entry('')]
  }),
)
const TARGET_LABELS = ['job', 'instance']
const recorded = new Set(rules.flatMap(({ record }) => record ?? []))
const METRIC = /(?<![\w:])((?:\w+:)?sluice_\w+(?::\w+)?)(?:\{([^}]*)\})?/g

/** Metrics and labels in an expression that no node exports. */
function unknownIn(expr: string): readonly string[] {
  return [...expr.matchAll(METRIC)].flatMap(([, name = '', selector = '']) => {
    if (recorded.has(name)) return []
    const labels = documented.get(name)
    if (labels === undefined) return name
    const asked = [...selector.matchAll(/(\w+) *(?:=~|!~|!=|=)/g)].map(([, label = '']) => label)
    return asked
      .filter((label) => !labels.has(label) && !TARGET_LABELS.includes(label))
      .map((label) => `${name}{${label}}`)
  })
}

describe(RULES, () => {
  test('promtool reports no problem', () => {
    expect(promtool('check', 'rules', RULES)).toContain('SUCCESS')
  })

  test('every alert fires and resolves as its tests say', () => {
    expect(promtool('test', 'rules', RULES_TEST)).toContain('SUCCESS')
  })

  test.each(alerts)('%s has a test in which it fires and one in which it resolves', (alert) => {
    const { tests } = readYaml(RULES_TEST) as {
      tests: readonly {
        alert_rule_test: readonly { alertname: string; exp_alerts: readonly unknown[] }[]
      }[]
    }
    const looks = tests.flatMap((each) =>
      each.alert_rule_test.filter((it) => it.alertname === alert),
    )
    const fired = looks.map(({ exp_alerts: expected }) => expected.length > 0)
    expect(fired).toContain(true)
    expect(fired.lastIndexOf(false)).toBeGreaterThan(fired.indexOf(true))
  })

  test.each(alerts)('%s states its severity and what to do', (_alert, rule) => {
    expect(['page', 'ticket']).toContain(rule.labels?.['severity'])
    expect(rule.annotations).toMatchObject({
      summary: expect.stringMatching(/\.$/),
      description: expect.stringMatching(/\.$/),
      runbook_url: expect.stringMatching(/^docs\/guides\/runbook\.md#[a-z-]+$/),
    })
  })

  const anchors = alerts.map(([, rule]) => rule.annotations?.['runbook_url']?.split('#')[1] ?? '')

  test('every alert of the server has a Prometheus alert', () => {
    expect(ALERT_NAMES.filter((name) => !anchors.includes(name))).toEqual([])
  })

  test('every alert has its section in the runbook', () => {
    const sections = [...readText(RUNBOOK).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
        .trim()
        .replaceAll(' ', '-'),
    )
    expect(anchors.filter((anchor) => !sections.includes(anchor))).toEqual([])
  })

  test('every metric it names is in the reference, with the labels that it uses', () => {
    expect(rules.flatMap(({ expr }) => unknownIn(expr))).toEqual([])
  })
})

describe(DASHBOARD, () => {
  let folder = ''
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-monitoring-'))
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  test('promtool can parse every expression', () => {
    const asked = queries.map(([, expr], place) => ({
      record: `query:${place}`,
      expr: fillIn(expr),
    }))
    const file = join(folder, 'queries.yaml')
    // JSON is valid YAML.
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'queries', rules: asked }] }))
    expect(promtool('check', 'rules', file)).toContain(`SUCCESS: ${queries.length} rules`)
  })

  test('every variable in an expression is one that Grafana defines', () => {
    expect(queries.filter(([, expr]) => fillIn(expr).includes('$'))).toEqual([])
    const names = dashboard.templating.list.map(({ name }) => name)
    expect(names).toEqual(['datasource', 'job', 'instance', 'rule'])
  })

  test('every metric it names is in the reference, with the labels that it uses', () => {
    const definitions = dashboard.templating.list.map(({ definition }) => definition ?? '')
    const asked = [...queries.map(([, expr]) => fillIn(expr)), ...definitions.map(fillIn)]
    expect(asked.flatMap(unknownIn)).toEqual([])
  })

  test('every metric of the reference has a panel', () => {
    const all = queries.map(([, expr]) => expr).join('\n')
    const names = [...documented.keys()].map((name) => name.replace(/_(?:bucket|sum|count)$/, ''))
    expect([...new Set(names)].filter((name) => !all.includes(name))).toEqual([])
  })

  test('every panel has a unique id, its own position, a description, and the chosen data source', () => {
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length)
    const chosen = { type: 'prometheus', uid: '${datasource}' }
    const cells = new Set<string>()
    for (const { title, description, datasource, gridPos, targets } of drawn) {
      expect(description, title).toMatch(/\.$/)
      expect([datasource, ...(targets ?? []).map((each) => each.datasource)]).toEqual(
        Array.from({ length: 1 + (targets?.length ?? 0) }, () => chosen),
      )
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(cells.has(`${x} ${y}`) || x >= 24, `${title}: ${x} ${y}`).toBe(false)
          cells.add(`${x} ${y}`)
        }
      }
    }
  })
})
