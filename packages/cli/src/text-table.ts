/** Formats tables: aligned, cut to the terminal's width, one line per row whatever the values. */
import { show } from '@sluice/core'

export type Cell = string | number | undefined

const GAP = 2
const CELL_LENGTH_MAX = 300
const CELL_WIDTH_MIN = 6

/** Columns of numbers are aligned at their end. `width` undefined: nothing is cut. */
export function table(
  titles: readonly string[],
  rows: readonly (readonly Cell[])[],
  width?: number,
): string {
  const texts = [titles, ...rows.map((row) => titles.map((_, i) => cellText(row[i])))]
  // Not Math.max(...rows): a list of keys has more rows than a call may have arguments.
  const natural = titles.map((_, i) =>
    texts.reduce((most, row) => Math.max(most, widthOf(row[i] ?? '')), 0),
  )
  const widths = width === undefined ? natural : fit(natural, width)
  const isNumber = titles.map((_, i) => rows.every((row) => typeof row[i] === 'number'))
  const lines = texts.map((row) =>
    widths
      .map((most, i) => {
        const text = cut(row[i] ?? '', most)
        const space = ' '.repeat(most - widthOf(text))
        return isNumber[i] === true ? space + text : text + space
      })
      .join(' '.repeat(GAP))
      .trimEnd(),
  )
  return `${lines.join('\n')}\n`
}

/** Formats names and values, one pair per line. */
export function pairs(rows: readonly (readonly [name: string, value: Cell])[]): string {
  const most = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, value]) => `${name.padEnd(most + GAP)}${cellText(value)}\n`).join('')
}

function cellText(cell: Cell): string {
  if (cell === undefined || cell === '') return '-'
  return show(String(cell), CELL_LENGTH_MAX)
}

/** Cuts the widest column first, because short ones identify the row. */
function fit(natural: readonly number[], width: number): readonly number[] {
  const widths = [...natural]
  let over = widths.reduce((sum, each) => sum + each, 0) + GAP * (widths.length - 1) - width
  for (; over > 0; over--) {
    const widest = Math.max(...widths)
    if (widest <= CELL_WIDTH_MIN) break
    widths[widths.lastIndexOf(widest)] = widest - 1
  }
  return widths
}

function cut(text: string, most: number): string {
  if (widthOf(text) <= most) return text
  let shortened = ''
  let width = 1
  for (const char of text) {
    width += widthOf(char)
    if (width > most) break
    shortened += char
  }
  return `${shortened}…`
}

const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f680}-\u{1f9ff}\u{20000}-\u{3fffd}]/u
const MARK = /\p{M}/u

/** The number of columns that a text takes on a terminal. */
export function widthOf(text: string): number {
  let width = 0
  for (const char of text) width += MARK.test(char) ? 0 : WIDE.test(char) ? 2 : 1
  return width
}
