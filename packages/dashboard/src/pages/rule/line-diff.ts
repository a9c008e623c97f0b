/** Two texts, line by line: what went, what came, what stayed. */

export interface DiffLine {
  readonly kind: 'same' | 'gone' | 'new'
  readonly text: string
}

/** Above this many lines of either side, whole texts are told in place of their differences. */
const LINES_MAX = 1500

export function diffLines(before: string, after: string): readonly DiffLine[] {
  const [old, young] = [linesOf(before), linesOf(after)]
  let start = 0
  while (start < old.length && start < young.length && old[start] === young[start]) start++
  let end = 0
  const room = Math.min(old.length, young.length) - start
  while (end < room && old.at(-1 - end) === young.at(-1 - end)) end++
  const middle = diffMiddle(
    old.slice(start, old.length - end),
    young.slice(start, young.length - end),
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
function diffMiddle(old: readonly string[], young: readonly string[]): readonly DiffLine[] {
  if (old.length > LINES_MAX || young.length > LINES_MAX) {
    return [...old.map(line('gone')), ...young.map(line('new'))]
  }
  const width = young.length + 1
  const common = new Uint16Array((old.length + 1) * width)
  const at = (i: number, j: number) => common[i * width + j] ?? 0
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = young.length - 1; j >= 0; j--) {
      common[i * width + j] =
        old[i] === young[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
    }
  }
  const lines: DiffLine[] = []
  let i = 0
  let j = 0
  while (i < old.length || j < young.length) {
    const [mine, theirs] = [old[i], young[j]]
    if (mine !== undefined && mine === theirs) {
      lines.push({ kind: 'same', text: mine })
      i++
      j++
    } else if (mine !== undefined && (theirs === undefined || at(i + 1, j) >= at(i, j + 1))) {
      lines.push({ kind: 'gone', text: mine })
      i++
    } else {
      lines.push({ kind: 'new', text: theirs ?? '' })
      j++
    }
  }
  return lines
}

/** Only what changed, with some lines around it; undefined stands for lines that were left out. */
export function hunksOf(lines: readonly DiffLine[], around = 3): readonly (DiffLine | undefined)[] {
  const near = lines.map((_, index) =>
    lines
      .slice(Math.max(0, index - around), index + around + 1)
      .some(({ kind }) => kind !== 'same'),
  )
  return lines.flatMap((each, index) => {
    if (near[index] === true) return [each]
    return index === 0 || near[index - 1] === true ? [undefined] : []
  })
}
