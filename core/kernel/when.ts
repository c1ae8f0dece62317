import type { RouteInfo } from '../plugin/gateway.ts'

/** Which links a plugin entry of the configuration runs for; absent means all. */
export interface When {
  /** Patterns over `<seller>/<slug>`; `*` stands for any run of characters. */
  readonly links?: readonly string[] | undefined
  readonly paid?: boolean | undefined
}

/** Turns `when` into a test that is asked once per link version. */
export function compileWhen(when: When | undefined): (info: RouteInfo) => boolean {
  if (when === undefined) return () => true
  const patterns = when.links?.map(toRegExp)
  return ({ link, isPaid }) => {
    if (when.paid !== undefined && when.paid !== isPaid) return false
    return patterns === undefined || patterns.some((p) => p.test(`${link.username}/${link.slug}`))
  }
}

function toRegExp(pattern: string): RegExp {
  const escaped = pattern.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*')
  return new RegExp(`^${escaped}$`)
}
