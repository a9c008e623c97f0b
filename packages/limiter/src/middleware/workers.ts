/** Finds out whether this process is one of several that serve the same requests. */

/** The part that is read; the types of Node describe only its default export. */
interface Cluster {
  readonly isWorker: boolean
  readonly worker?: { readonly id: number } | undefined
}

/** Says which, for a warning; undefined if it seems to be the only one. */
export function findWorkers(): string | undefined {
  const { process } = globalThis
  // Without an import: other runtimes have no such module.
  const cluster = process?.getBuiltinModule?.('node:cluster') as unknown as Cluster | undefined
  if (cluster?.isWorker) return `worker ${cluster.worker?.id ?? ''} of node:cluster`
  // Deno would ask the user for the right to read a variable, or throw.
  if ('Deno' in globalThis) return undefined
  // PM2 numbers the instances of an application, from 0.
  const instance = process?.env?.['NODE_APP_INSTANCE']
  return instance === undefined || instance === '0' ? undefined : `instance ${instance} of PM2`
}
