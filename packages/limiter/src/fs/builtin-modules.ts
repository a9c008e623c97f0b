/**
 * The modules of Node that read files, loaded on demand: code on this path also runs in runtimes
 * that have none of them.
 */
import type * as NodeCrypto from 'node:crypto'
import type * as NodeFs from 'node:fs'
import type * as NodePath from 'node:path'
import { SluiceError } from '@sluice/core'

export interface FileModules {
  readonly fs: typeof NodeFs
  readonly crypto: typeof NodeCrypto
  readonly path: typeof NodePath
}

/** Throws OPTION_INVALID where there is no file system. */
export function fileModules(): FileModules {
  const { process } = globalThis
  const fs = process?.getBuiltinModule?.('node:fs')
  const crypto = process?.getBuiltinModule?.('node:crypto')
  const path = process?.getBuiltinModule?.('node:path')
  if (fs !== undefined && crypto !== undefined && path !== undefined) return { fs, crypto, path }
  throw new SluiceError(
    'OPTION_INVALID',
    'file: found one in a runtime without a file system; accepted: rules as a list or as text',
  )
}
