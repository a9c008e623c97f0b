/** What a colour means. Each also has a sign, a dash or a word: nobody has to see the colour. */
export type Tone = 'neutral' | 'accent' | 'allowed' | 'refused' | 'shadow' | 'degraded'

/** Joins names of CSS classes. */
export const classes = (...names: readonly (string | false | undefined)[]): string =>
  names.filter((name) => name !== false && name !== undefined && name !== '').join(' ')
