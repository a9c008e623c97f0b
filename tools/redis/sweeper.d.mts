/** Creates a folder that is removed with this process at the latest. */
export function makeFolder(prefix?: string): string

/** Kills the server with this process at the latest. */
export function sweepServer(pid: number): void

/** Unregisters a process: its id may soon belong to another one. */
export function serverEnded(pid: number): void
