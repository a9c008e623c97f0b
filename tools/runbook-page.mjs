/**
 * Builds docs/guides/runbook.md as a page beside the dashboard, so that an alert links to what to
 * do, even without access to the repository.
 */
import { Marked } from 'marked'

/** Anchors as GitHub makes them, so that links work in both places. */
function slugOf(text) {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-')
}

function escapeText(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

/** @param {string} markdown @returns {string} */
export function runbookPage(markdown) {
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }) {
        const inner = this.parser.parseInline(tokens)
        return `<h${depth} id="${slugOf(text)}">${inner}</h${depth}>\n`
      },
      // Other documents are not served with the dashboard.
      link({ href, tokens }) {
        const inner = this.parser.parseInline(tokens)
        return href.startsWith('#') ? `<a href="${encodeURI(href)}">${inner}</a>` : inner
      },
      // A block that is too wide can be scrolled, also by keyboard.
      code({ text }) {
        return `<pre tabindex="0"><code>${escapeText(text)}</code></pre>\n`
      },
      html: ({ text }) => escapeText(text),
    },
  })
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Runbook · Sluice</title>
    <link rel="stylesheet" href="/runbook.css">
  </head>
  <body>
    <main>
      <p><a href="/">Dashboard</a></p>
      ${marked.parse(markdown, { async: false })}
    </main>
  </body>
</html>
`
}
