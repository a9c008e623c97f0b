/** The difference of two texts: removed, added and unchanged lines. */

export interface DiffLine {
  readonly kind: 'same' | 'removed' | 'added'
  readonly text: string
}

/** Longer texts are shown whole, as removed and added. */
const LINES_MAX = 1500

export function diffLines(before: string, after: string): readonly DiffLine[] {
  const [oldLines, newLines] = [linesOf(before), linesOf(after)]
  let start = 0
  while (start < oldLines.length && start < newLines.length && oldLines[start] === newLines[start])
    start++
  let end = 0
  const shorter = Math.min(oldLines.length, newLines.length) - start
  while (end < shorter && oldLines.at(-1 - end) === newLines.at(-1 - end)) end++
  const middle = diffMiddle(
    oldLines.slice(start, oldLines.length - end),
    newLines.slice(start, newLines.length - end),
  )
  return [
    ...oldLines.slice(0, start).map(line('same')),
    ...middle,
    ...oldLines.slice(oldLines.length - end).map(line('same')),
  ]
}

const line =
  (kind: DiffLine['kind']) =>
  (text: string): DiffLine => ({ kind, text })

/** A final line break does not start another line. */
function linesOf(text: string): readonly string[] {
  return text === '' ? [] : text.replace(/\n$/, '').split('\n')
}

/** Uses the longest common subsequence; removed lines come before added ones. */
function diffMiddle(oldLines: readonly string[], newLines: readonly string[]): readonly DiffLine[] {
  if (oldLines.length > LINES_MAX || newLines.length > LINES_MAX) {
    return [...oldLines.map(line('removed')), ...newLines.map(line('added'))]
  }
  const width = newLines.length + 1
  const common = new Uint16Array((oldLines.length + 1) * width)
  const at = (i: number, j: number) => common[i * width + j] ?? 0
  for (let i = oldLines.length - 1; i >= 0; i--) {
    for (let j = newLines.length - 1; j >= 0; j--) {
      common[i * width + j] =
        oldLines[i] === newLines[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
    }
  }
  const lines: DiffLine[] = []
  let i = 0
  let j = 0
  while (i < oldLines.length || j < newLines.length) {
    const [oldLine, newLine] = [oldLines[i], newLines[j]]
    if (oldLine !== undefined && oldLine === newLine) {
      lines.push({ kind: 'same', text: oldLine })
      i++
      j++
    } else if (oldLine !== undefined && (newLine === undefined || at(i + 1, j) >= at(i, j + 1))) {
      lines.push({ kind: 'removed', text: oldLine })
      i++
    } else {
      lines.push({ kind: 'added', text: newLine ?? '' })
      j++
    }
  }
  return lines
}

/** Changed lines with some lines of context; undefined stands for omitted lines. */
export function hunksOf(
  lines: readonly DiffLine[],
  context = 3,
): readonly (DiffLine | undefined)[] {
  const isNearChange = lines.map((_, index) =>
    lines
      .slice(Math.max(0, index - context), index + context + 1)
      .some(({ kind }) => kind !== 'same'),
  )
  return lines.flatMap((each, index) => {
    if (isNearChange[index] === true) return [each]
    return index === 0 || isNearChange[index - 1] === true ? [undefined] : []
  })
}
