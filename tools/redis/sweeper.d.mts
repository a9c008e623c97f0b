/** A folder of its own, removed with this process at the latest. */
export function makeFolder(): string
