/** The target of a figure. A missed target fails nothing. */

export const atLeast = (least) => ({
  target: `at least ${least}`,
  isReached: (found) => found >= least,
})
export const atMost = (most) => ({ target: `at most ${most}`, isReached: (found) => found <= most })
export const verdict = (isReached) => (isReached ? 'reached' : 'NOT reached')
