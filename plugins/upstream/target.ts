/** Where a link's calls go: everything that is the same for each of them. */
export interface Target {
  readonly origin: string
  /** Path without a trailing slash, so that a sub-path can follow; empty for the root. */
  readonly basePath: string
  /** The link's own path when a call has no sub-path. */
  readonly rootPath: string
  /** Query of the link's own URL, without the `?`; callers' parameters come after it. */
  readonly baseQuery: string
}

export function targetOf(url: string): Target {
  const { origin, pathname, search } = new URL(url)
  return {
    origin,
    basePath: pathname.endsWith('/') ? pathname.slice(0, -1) : pathname,
    rootPath: pathname,
    baseQuery: search.slice(1),
  }
}

/** The path and query of one call: canonical already, so it is joined and never decoded. */
export function pathOf(target: Target, subPath: string, query: string): string {
  const path = subPath === '' ? target.rootPath : target.basePath + subPath
  if (target.baseQuery === '') return path + query
  return query.length > 1 ? `${path}?${target.baseQuery}&${query.slice(1)}` : `${path}?${target.baseQuery}`
}
