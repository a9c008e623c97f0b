/**
 * Minimal SVG for a few panels of points. It has its own background, so that it is readable on any
 * page, even without support for colour schemes.
 */

const STYLE = `
  .ground { fill: #ffffff; }
  text { font: 12px system-ui, sans-serif; fill: #3a3f47; }
  .title { font-weight: 600; font-size: 13px; fill: #1c2026; }
  .note { font-size: 11px; fill: #5c636e; }
  .grid { stroke: #d9dde3; stroke-width: 1; }
  .axis { stroke: #9aa2ad; stroke-width: 1; }
  .bound { stroke: #1c2026; stroke-width: 2; }
  .n0 { fill: #2166c4; } .n1 { fill: #c05a12; } .n2 { fill: #1b7f4d; }
  .n3 { fill: #8a3fb0; } .n4 { fill: #8a6d00; } .n5 { fill: #6b7482; }
  .c0 { stroke: #2166c4; } .c1 { stroke: #c05a12; } .c2 { stroke: #1b7f4d; }
  .c3 { stroke: #8a3fb0; } .c4 { stroke: #8a6d00; } .c5 { stroke: #6b7482; }
  .curve { fill: none; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #14181e; }
    text { fill: #c3c9d2; }
    .title { fill: #eef1f5; }
    .note { fill: #98a1ad; }
    .grid { stroke: #343b45; }
    .axis { stroke: #6b7482; }
    .bound { stroke: #eef1f5; }
    .n0 { fill: #6ea8ff; } .n1 { fill: #f2995c; } .n2 { fill: #5ecb94; }
    .n3 { fill: #cf9be8; } .n4 { fill: #d9bd55; } .n5 { fill: #98a1ad; }
    .c0 { stroke: #6ea8ff; } .c1 { stroke: #f2995c; } .c2 { stroke: #5ecb94; }
    .c3 { stroke: #cf9be8; } .c4 { stroke: #d9bd55; } .c5 { stroke: #98a1ad; }
  }
`

const escape = (content) => String(content).replaceAll('&', '&amp;').replaceAll('<', '&lt;')
const at = (number) => String(Math.round(number * 10) / 10)

export function text(x, y, content, { anchor = 'start', kind } = {}) {
  const style = kind === undefined ? '' : ` class="${kind}"`
  return `<text x="${at(x)}" y="${at(y)}" text-anchor="${anchor}"${style}>${escape(content)}</text>`
}

export function line(x1, y1, x2, y2, kind) {
  return `<line x1="${at(x1)}" y1="${at(y1)}" x2="${at(x2)}" y2="${at(y2)}" class="${kind}"/>`
}

/** Shapes differ as colours do, for readers who cannot distinguish the colours. */
export function point(x, y, series, label) {
  const shapes = [
    `<circle cx="${at(x)}" cy="${at(y)}" r="4.5"`,
    `<rect x="${at(x - 4)}" y="${at(y - 4)}" width="8" height="8"`,
    `<path d="M${at(x)} ${at(y - 5.5)} L${at(x + 5)} ${at(y + 4)} L${at(x - 5)} ${at(y + 4)} Z"`,
  ]
  const shape = series % shapes.length
  return `${shapes[shape]} class="n${series}"><title>${escape(label)}</title>${CLOSINGS[shape]}`
}

const CLOSINGS = ['</circle>', '</rect>', '</path>']

/** A line through points `[x, y]`. */
export function curve(points, series) {
  const list = points.map(([x, y]) => `${at(x)},${at(y)}`).join(' ')
  return `<polyline points="${list}" class="curve c${series}"/>`
}

export function image({ width, height, label }, parts) {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escape(label)}">`,
    `<style>${STYLE}</style>`,
    `<rect width="${width}" height="${height}" rx="6" class="ground"/>`,
    ...parts,
    '</svg>',
    '',
  ].join('\n')
}
