import { LUA_TEXTS } from '../../generated/lua-texts.js'

/** The text of a file of `src/lua`, by its name without the ending. */
export function luaText(name: string): string {
  const text = LUA_TEXTS.get(name)
  if (text === undefined) throw new Error(`src/lua/${name}.lua: found no such file`)
  return text
}
