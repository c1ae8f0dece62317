import { validationError } from '../schema/validationError.ts'

/** Which link a tool is called about. */
export interface LinkAddress {
  readonly username: string
  readonly slug: string
  /** What the address has behind the slug: path and query, or empty. */
  readonly rest: string
}

export const linkField = {
  type: 'string',
  minLength: 1,
  maxLength: 4_096,
  description: 'The endpoint or url that search_links gave, or <seller>/<slug>.',
}

const form = /^(?:\/?api\/link)?\/?([\w-]{1,64})\/([\w-]{1,64})((?:[/?].*)?)$/s

/** @param publicUrl without a slash at its end @throws `VALIDATION_ERROR` */
export function readLinkAddress(publicUrl: string, link: string): LinkAddress {
  const path = link.startsWith(`${publicUrl}/`) ? link.slice(publicUrl.length) : link
  const found = form.exec(path)
  if (found !== null) return { username: found[1]!, slug: found[2]!, rest: found[3]! }
  const message = `Expected ${publicUrl}/api/link/<seller>/<slug>, or <seller>/<slug>.`
  throw validationError([{ path: 'link', code: 'format', message }])
}
