/** Meanings of colours. Each also has an icon, a dash pattern or a word. */
export type Tone = 'neutral' | 'accent' | 'allowed' | 'refused' | 'shadow' | 'degraded'

/** Joins CSS class names. */
export const classes = (...names: readonly (string | false | undefined)[]): string =>
  names.filter((name) => name !== false && name !== undefined && name !== '').join(' ')
