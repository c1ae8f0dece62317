import type { Api } from '../deps.ts'

/**
 * The `Link` header that leads to the next page (RFC 8288), for answers that have no place for a cursor.
 *
 * @param query of the next page; what is undefined is left out
 */
export function nextLink(
  { publicUrl }: Pick<Api, 'publicUrl'>,
  path: string,
  query: Readonly<Record<string, string | number | undefined>>,
): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)]],
  )
  return `<${publicUrl}${path}?${new URLSearchParams(given)}>; rel="next"`
}
