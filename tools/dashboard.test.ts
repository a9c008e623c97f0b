import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { ALERT_NAMES } from '../packages/server/src/observability/alerts/alert-kinds.js'

const DIST = 'packages/dashboard/dist/page'
const GZIP_BYTES_MAX = 100 * 1024

const files = readdirSync(DIST, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
  .map((entry) => join(entry.parentPath, entry.name))
const textOf = (file: string) => readFileSync(file, 'utf8')

/** XML namespaces of images, which are not loaded. */
const NAMESPACE = /^http:\/\/www\.w3\.org\//

/** URLs in texts of the page: an example address, and links to documentation. */
const SHOWN = /^https?:\/\/(127\.0\.0\.1|localhost|api\.example\.com)\b/

describe('the built dashboard page', () => {
  test('is smaller than 100 KB when compressed', () => {
    // The runbook is a document of its own, which a link in an alert opens.
    const page = files.filter((file) => !file.includes('runbook'))
    const sizes = page.map((file) => gzipSync(readFileSync(file), { level: 9 }).length)
    expect(sizes.reduce((total, size) => total + size, 0)).toBeLessThan(GZIP_BYTES_MAX)
  })

  test('loads nothing from other hosts', () => {
    const addresses = files.flatMap(
      (file) => textOf(file).match(/https?:\/\/[\w.-]+[^\s"'`)]*/g) ?? [],
    )
    expect(addresses.filter((one) => !NAMESPACE.test(one) && !SHOWN.test(one))).toEqual([])
    const styles = files.filter((file) => file.endsWith('.css')).map(textOf)
    const loads = styles.flatMap((text) => text.match(/@import.*?;|url\([^)]*\)/g) ?? [])
    // A fragment refers to a pattern of an image in the page itself.
    expect(loads.filter((one) => !/^url\(["']?(#|data:|\/assets\/)/.test(one))).toEqual([])
  })

  test('has no inline script or style, as the content security policy requires', () => {
    const html = textOf(join(DIST, 'index.html'))
    expect(html).not.toMatch(/<style|\sstyle=|\son\w+=|javascript:/i)
    for (const [, inside = ''] of html.matchAll(/<script\b[^>]*>([\s\S]*?)<\/script>/g)) {
      expect(inside.trim()).toBe('')
    }
    for (const [, from = ''] of html.matchAll(/(?:src|href)="([^"]*)"/g)) {
      expect(from).toMatch(/^\/assets\//)
    }
  })

  test('includes the runbook with a section for each alert and without external links', () => {
    const html = textOf(join(DIST, 'runbook.html'))
    for (const name of ALERT_NAMES) expect(html).toContain(`<h2 id="${name}">`)
    expect(html).not.toMatch(/<script|<style|\sstyle=|\son\w+=|javascript:/i)
    const targets = [...html.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, target = '']) => target)
    const ids = new Set([...html.matchAll(/id="([^"]*)"/g)].map(([, id = '']) => id))
    expect(targets.filter((target) => !target.startsWith('#'))).toEqual(['/runbook.css', '/'])
    expect(targets.filter((target) => target.startsWith('#') && !ids.has(target.slice(1)))).toEqual(
      [],
    )
  })

  test('writes no markup from text', () => {
    const sources = readdirSync('packages/dashboard/src', { recursive: true, encoding: 'utf8' })
    for (const file of sources.filter((name) => /\.tsx?$/.test(name) && !/\.test\./.test(name))) {
      expect(textOf(join('packages/dashboard/src', file)), file).not.toMatch(
        /dangerouslySetInnerHTML|innerHTML|insertAdjacentHTML|document\.write|\beval\(/,
      )
    }
  })
})
