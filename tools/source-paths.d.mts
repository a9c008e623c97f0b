/** Where the source of each entry point of each package is; see source-paths.mjs. */
export const SOURCES_FILE: string

/** The name of every entry point that has a source, with the path of that source. */
export function sourcePaths(root?: string): [name: string, path: string][]

/** The same for `resolve.alias` of Vite and Vitest. */
export function sourceAliases(root?: string): { find: RegExp; replacement: string }[]

/** The text of tsconfig.sources.json. */
export function sourcesConfig(root?: string): string
