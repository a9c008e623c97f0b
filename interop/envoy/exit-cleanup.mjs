/** What is left is stopped when this process exits, however it ends. One listener for all. */
const cleanups = new Set()
process.once('exit', () => {
  for (const cleanup of cleanups) cleanup()
})

/** `cleanup` must not wait for anything. Returns what forgets it. */
export function onExit(cleanup) {
  cleanups.add(cleanup)
  return () => cleanups.delete(cleanup)
}
