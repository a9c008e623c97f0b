/** Two texts, line by line: what went, what came, what stayed. */

export interface DiffLine {
  readonly kind: 'same' | 'gone' | 'new'
  readonly text: string
}

/** Above this many lines of either side, whole texts are told in place of their differences. */
const LINES_MAX = 1500

export function diffLines(before: string, after: string): readonly DiffLine[] {
  const [old, new_] = [linesOf(before), linesOf(after)]
  let start = 0
  while (start < old.length && start < new_.length && old[start] === new_[start]) start++
  let end = 0
  const shorter = Math.min(old.length, new_.length) - start
  while (end < shorter && old.at(-1 - end) === new_.at(-1 - end)) end++
  const middle = diffMiddle(
    old.slice(start, old.length - end),
    new_.slice(start, new_.length - end),
  )
  return [
    ...old.slice(0, start).map(line('same')),
    ...middle,
    ...old.slice(old.length - end).map(line('same')),
  ]
}

const line =
  (kind: DiffLine['kind']) =>
  (text: string): DiffLine => ({ kind, text })

/** The end of the last line is no line. */
function linesOf(text: string): readonly string[] {
  return text === '' ? [] : text.replace(/\n$/, '').split('\n')
}

/** By the longest common list of lines; what went stands before what came. */
function diffMiddle(old: readonly string[], new_: readonly string[]): readonly DiffLine[] {
  if (old.length > LINES_MAX || new_.length > LINES_MAX) {
    return [...old.map(line('gone')), ...new_.map(line('new'))]
  }
  const width = new_.length + 1
  const common = new Uint16Array((old.length + 1) * width)
  const at = (i: number, j: number) => common[i * width + j] ?? 0
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = new_.length - 1; j >= 0; j--) {
      common[i * width + j] =
        old[i] === new_[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
    }
  }
  const lines: DiffLine[] = []
  let i = 0
  let j = 0
  while (i < old.length || j < new_.length) {
    const [oldLine, newLine] = [old[i], new_[j]]
    if (oldLine !== undefined && oldLine === newLine) {
      lines.push({ kind: 'same', text: oldLine })
      i++
      j++
    } else if (oldLine !== undefined && (newLine === undefined || at(i + 1, j) >= at(i, j + 1))) {
      lines.push({ kind: 'gone', text: oldLine })
      i++
    } else {
      lines.push({ kind: 'new', text: newLine ?? '' })
      j++
    }
  }
  return lines
}

/** Only what changed, with some lines around it; undefined stands for lines that were left out. */
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
