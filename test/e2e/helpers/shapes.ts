import type { Test } from 'tap'

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
export type Json = any

export const uuid = /^[\da-f]{8}-[\da-f]{4}-[1-8][\da-f]{3}-[\da-f]{4}-[\da-f]{12}$/
export const iso = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/
export const decimal = /^\d+(\.\d{1,18})?$/
export const orNull = (kind: unknown) => (value: unknown) => value === null || matches(value, kind)

/** Whether a value is of a kind: a type's constructor, a pattern, a test, or a value itself. */
function matches(value: unknown, kind: unknown): boolean {
  if (kind === String) return typeof value === 'string'
  if (kind === Number) return Number.isInteger(value)
  if (kind === Boolean) return typeof value === 'boolean'
  if (kind === Array) return Array.isArray(value)
  if (kind === Object) return typeof value === 'object' && value !== null
  if (kind instanceof RegExp) return typeof value === 'string' && kind.test(value)
  if (typeof kind === 'function') return (kind as (value: unknown) => boolean)(value)
  return value === kind
}

/** Every field of a table is there and of its kind; what else is there is API of ours. */
export function fields(t: Test, what: string, record: Json, table: Readonly<Record<string, unknown>>): void {
  for (const [field, kind] of Object.entries(table)) {
    t.ok(Object.hasOwn(record ?? {}, field), `${what} has ${field}`)
    t.ok(matches(record?.[field], kind), `${what}: ${field} is ${JSON.stringify(record?.[field])}`)
  }
}

/** The only fields, where the document shows the answer without a wrapper or a body that machines read by heart. */
export const sameFields = (t: Test, what: string, record: Json, names: readonly string[]) =>
  t.strictSame(Object.keys(record).sort(), [...names].sort(), what)
