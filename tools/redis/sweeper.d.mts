/** A folder of its own, removed with this process at the latest. */
export function makeFolder(prefix?: string): string

/** Ends the server with this process at the latest. */
export function sweepServer(pid: number): void

/** Its id may be somebody else's soon. */
export function serverEnded(pid: number): void
