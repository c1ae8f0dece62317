/** JSON unless CSV is asked for by name, before or without JSON. */
export function prefersCsv(accept: string | undefined): boolean {
  if (accept === undefined) return false
  const csvAt = accept.indexOf('text/csv')
  const jsonAt = accept.indexOf('application/json')
  return csvAt >= 0 && (jsonAt < 0 || csvAt < jsonAt)
}
