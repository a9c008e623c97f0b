/** Splits a command line into words as a shell does: quotes, backslashes, line continuations. */

/** Bounds the work: the user may paste a whole file. */
const LENGTH_MAX = 100_000

const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['n', '\n'],
  ['t', '\t'],
  ['r', '\r'],
])

/** A piece of a word: in single quotes, in `$'…'`, in double quotes, escaped, or plain. */
const PIECE =
  /'([^']*)'|\$'((?:[^'\\]|\\[^])*)'|"((?:[^"\\]|\\[^])*)"|\\\r?\n|\\([^])|([^\s'"\\]+|["'\\])|(\s+)/g

export function shellWords(line: string): readonly string[] {
  const words: string[] = []
  let word: string | undefined
  for (const [, single, ansi, double, escaped, plain, space] of line
    .slice(0, LENGTH_MAX)
    .matchAll(PIECE)) {
    if (space !== undefined) {
      if (word !== undefined) words.push(word)
      word = undefined
      continue
    }
    const piece =
      single ??
      ansi?.replace(/\\([^])/g, (_, next: string) => ESCAPES.get(next) ?? next) ??
      double?.replace(/\\(["\\$`\n])/g, '$1') ??
      escaped ??
      plain
    // A line continuation does not start a word.
    if (piece !== undefined) word = (word ?? '') + piece
  }
  if (word !== undefined) words.push(word)
  return words
}
